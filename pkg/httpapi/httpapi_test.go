package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/boltstores"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/entity"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

func now() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 678_900_000, time.UTC) }

var options = httpapi.Options{Config: httpapi.Config{AccessOff: true, AdminRoutes: true}, Now: now, RequestID: requestID, Logger: slog.New(slog.DiscardHandler)}

func requestID(*http.Request) string { return "test-request" }

type service struct {
	stores  httpapi.Stores
	limiter *ratelimit.Limiter
	rows    *ratelimit.RowCache // nil for none
	now     *func() time.Time   // clock of the stores
}

func newAPI(t testing.TB) service {
	t.Helper()
	clock := now
	stores, counters := boltstores.New(t, func() time.Time { return clock() })
	a := service{stores: stores, now: &clock}
	a.stores.ExportLinks, a.stores.ExportDeleter = links{}, links{}
	var err error
	if a.limiter, err = ratelimit.New(counters, ratelimit.Config{Now: now}); err != nil {
		t.Fatal(err)
	}
	return a
}

// links returns paths on the API's own server as download links.
type links struct{}

func (links) Link(_ context.Context, f exportjob.File) (string, error) {
	return "/file/" + f.Key, nil
}

func (links) Delete(context.Context, exportjob.File) error { return nil }

func (a service) invoke(t testing.TB, route string, ev events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	opts := options
	opts.Rows = a.rows
	resp := serve(t, newFunction(t, route, a, opts), ev)
	checkDescribed(t, ev, resp)
	return resp
}

func sample(t *testing.T, name string) events.APIGatewayV2HTTPRequest {
	t.Helper()
	return lambdatest.Sample(t, name)
}

func TestSampleEvents(t *testing.T) {
	a := newAPI(t)
	const ada = `{"id":"ada","type":"person","attributes":{"name":"Ada Lovelace","born":1815},"revision":1,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`
	const signedUp = `{"id":"evt-1","name":"signed_up","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{"plan":"free"},"created_at":"2026-01-02T15:04:05.678Z"}`
	const loggedIn = `{"id":"evt-2","name":"logged_in","entity_id":"ada","occurred_at":"2026-01-02T15:04:06.000Z","attributes":{},"created_at":"2026-01-02T15:04:05.678Z"}`
	const adaChanged = `{"id":"ada","type":"person","attributes":{"name":"Ada Lovelace","field":"mathematics"},"revision":2,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`
	const adaDied = `{"id":"ada","type":"person","attributes":{"born":1815,"died":1852},"revision":4,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`
	const bob = `{"id":"bob","type":"entity","attributes":{},"revision":1,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`
	const export = `{"id":"export-1","resource":"event","format":"ndjson","filters":{"entity_id":"ada","from":"2026-01-01T00:00:00.000Z"},"status":"queued","records_written":0,"records_expected":null,"size_bytes":null,"created_at":"2026-01-02T15:04:05.678Z","started_at":null,"finished_at":null,"file_expires_at":null,"file_deleted_at":null,"download_url":null,"error":null}`
	cancelled := strings.NewReplacer(`"queued"`, `"cancelled"`, `"finished_at":null`, `"finished_at":"2026-01-02T15:04:05.678Z"`).Replace(export)
	for _, step := range []struct {
		route  string
		status int
		body   string
	}{
		{"get-entity", 404, ""},
		{"get-event", 404, ""},
		{"create-entity", 201, ada},
		{"create-entity", 200, ada},
		{"get-entity", 200, ada},
		{"list-entity", 200, `{"data":[` + ada + `],"next_cursor":null}`},
		{"list-event", 200, `{"data":[],"next_cursor":null}`},
		{"create-event", 201, signedUp},
		{"create-event", 200, signedUp},
		{"list-event", 200, `{"data":[` + signedUp + `],"next_cursor":null}`},
		{"get-event", 200, signedUp},
		{"create-events", 207, `{"results":[{"index":0,"status":200,"event":` + signedUp + `},{"index":1,"status":201,"event":` + loggedIn + `}]}`},
		{"create-events", 200, `{"results":[{"index":0,"status":200,"event":` + signedUp + `},{"index":1,"status":200,"event":` + loggedIn + `}]}`},
		{"update-entity", 200, adaChanged},
		{"update-entity", 200, adaChanged},
		{"get-entity", 200, adaChanged},
		{"delete-entity", 200, `{"id":"ada","deleted":true}`},
		{"delete-entity", 200, `{"id":"ada","deleted":true}`},
		{"get-entity", 404, ""},
		{"update-entity", 404, ""},
		{"upsert-entities", 207, `{"results":[{"index":0,"status":201,"entity":` + adaDied + `},{"index":1,"status":200,"entity":` + adaDied + `},{"index":2,"status":201,"entity":` + bob + `}]}`},
		{"upsert-entities", 200, ""},
		{"get-erasure-job", 404, ""},
		{"list-entity-index", 200, `{"data":[],"next_cursor":null}`},
		{"get-export-job", 404, ""},
		{"cancel-export-job", 404, ""},
		{"delete-export-job", 404, ""},
		{"create-export-job", 201, export},
		{"create-export-job", 200, export},
		{"get-export-job", 200, export},
		{"list-export-job", 200, `{"data":[` + export + `],"next_cursor":null}`},
		{"cancel-export-job", 200, cancelled},
		{"cancel-export-job", 200, cancelled},
		{"create-export-job", 200, cancelled},
		{"delete-export-job", 200, cancelled},
		{"not-found", 404, ""},
	} {
		resp := a.invoke(t, step.route, sample(t, step.route))
		if resp.StatusCode != step.status || step.body != "" && resp.Body != step.body+"\n" {
			t.Errorf("%s: %d %s, want %d %s", step.route, resp.StatusCode, resp.Body, step.status, step.body)
		}
		if resp.Headers["X-RateLimit-Reset"] == "" {
			t.Errorf("%s: headers %v", step.route, resp.Headers)
		}
	}
}

func TestARecordWithoutAnIDGetsOne(t *testing.T) {
	a := newAPI(t)
	ev := sample(t, "create-event")
	ev.Body = `{"name":"n"}`
	var first, second struct {
		ID         string  `json:"id"`
		EntityID   *string `json:"entity_id"`
		OccurredAt string  `json:"occurred_at"`
	}
	for _, dst := range []any{&first, &second} {
		resp := a.invoke(t, "create-event", ev)
		if resp.StatusCode != 201 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
		if err := json.Unmarshal([]byte(resp.Body), dst); err != nil {
			t.Fatal(err)
		}
	}
	if len(first.ID) != 36 || first.ID[14] != '7' || first.ID >= second.ID {
		t.Errorf("ids %s and %s, want UUIDv7s in order", first.ID, second.ID)
	}
	if first.EntityID != nil || first.OccurredAt != "2026-01-02T15:04:05.678Z" {
		t.Errorf("defaults %+v", first)
	}
}

// failingStore returns err from Get, or panics if err is nil.
type failingStore struct {
	entity.Store
	err error
}

func (s failingStore) Get(context.Context, string, string) (entity.Entity, error) {
	if s.err == nil {
		panic("secret")
	}
	return entity.Entity{}, s.err
}

func TestServerErrorsDoNotRevealTheirCause(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("secret"), 500, "internal_error"},
		{nil, 500, "internal_error"},
		{record.UnavailableError("get", errors.New("secret")), 503, "store_unavailable"},
	} {
		a.stores.Entities = failingStore{err: tt.err}
		resp := a.invoke(t, "get-entity", sample(t, "get-entity"))
		if resp.StatusCode != tt.status || !strings.Contains(resp.Body, tt.code) || strings.Contains(resp.Body, "secret") {
			t.Errorf("%v: %d %s", tt.err, resp.StatusCode, resp.Body)
		}
		if resp.Headers["X-RateLimit-Remaining"] == "" || (resp.Headers["Retry-After"] == "1") != (tt.status == 503) {
			t.Errorf("%v: headers %v", tt.err, resp.Headers)
		}
	}
}

// storeless reports whether the table says that a function uses no store.
func storeless(a service, name string) bool {
	_, err := httpapi.NewFunction(name, a.limiter, httpapi.Stores{}, options)
	return err == nil
}

// Otherwise the row in the table lacks a store.
func TestAFunctionWithoutStoresWorksWithoutThem(t *testing.T) {
	a := newAPI(t)
	a.stores = httpapi.Stores{}
	for _, r := range httpapi.Routes() {
		if !storeless(a, r.Name) {
			continue
		}
		if resp := a.invoke(t, r.Name, sample(t, r.Name)); resp.StatusCode >= 500 {
			t.Errorf("%s: %d %s", r, resp.StatusCode, resp.Body)
		}
	}
	if _, err := httpapi.NewFunction("nowhere", a.limiter, newAPI(t).stores, options); err == nil {
		t.Error("an unknown route: no error")
	}
}

func TestLoadConfig(t *testing.T) {
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	if c, err := httpapi.LoadConfig(get); err != nil || c.Limits != (ratelimit.Limits{Records: 200, Imports: 200, Requests: 200}) || c.IPv6Prefix != 64 || c.ExportJobs != 10 || c.LimitsMaxAge != time.Minute {
		t.Errorf("defaults %+v, %v", c, err)
	}
	for name, values := range map[string][]string{
		"LIMIT_RECORDS":             {"0", "-1", "1000001", "x", "1.5", " 1"},
		"LIMIT_IMPORTS":             {"0", "901"},
		"LIMIT_REQUESTS":            {"0", "901"},
		"CLIENT_IPV6_PREFIX":        {"0", "129"},
		"EXPORT_JOBS_PER_WORKSPACE": {"0", "101", "ten"},
		"EVENT_RETENTION_DAYS":      {"-1", "36501", "ten"},
		"LIMITS_MAX_AGE":            {"0", "60", "999ms", "61s", "-1s", "x"},
	} {
		for _, v := range values {
			env = map[string]string{name: v}
			if _, err := httpapi.LoadConfig(get); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
	}
	env = map[string]string{"LIMIT_RECORDS": "1", "LIMIT_IMPORTS": "900", "LIMIT_REQUESTS": "7", "CLIENT_IPV6_PREFIX": "128", "EXPORT_JOBS_PER_WORKSPACE": "100", "LIMITS_MAX_AGE": "2.5s"}
	if c, err := httpapi.LoadConfig(get); err != nil || c.Limits != (ratelimit.Limits{Records: 1, Imports: 900, Requests: 7}) || c.IPv6Prefix != 128 || c.ExportJobs != 100 || c.LimitsMaxAge != 2500*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
}

// createEntities uses an address of its own, so that other addresses keep their full limits.
func (a service) createEntities(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		ev := lambdatest.Event("POST", "/create_entity", "203.0.113.1", fmt.Sprintf(`{"id":"e%03d"}`, i))
		if resp := a.invoke(t, "create-entity", ev); resp.StatusCode != 201 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
	}
}
