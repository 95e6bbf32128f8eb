package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

func open(t *testing.T, limits ratelimit.Limits, cfg client.Config) *client.Client {
	t.Helper()
	url, stop, err := service(limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c, err := client.New(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryRoute(t *testing.T) {
	t.Parallel()
	called := make(map[string]bool)
	c, ctx := open(t, ratelimit.Limits{}, client.Config{OnTry: func(try client.Try) { called[try.Route] = true }}), t.Context()
	callEntityRoutes(t, c)
	callEventRoutes(t, c)
	callErasureJobRoutes(t, c)
	callExportJobRoutes(t, c)
	callAdminRoutes(t, c)
	callLimitRoutes(t, c)

	if document, err := c.OpenAPI(ctx); err != nil || !bytes.Equal(document, sluice.OpenAPI) {
		t.Errorf("OpenAPI: %d bytes, %v", len(document), err)
	}
	if all, err := c.EntityIndexes(ctx); err != nil || len(all) != 0 {
		t.Errorf("indexes %v, %v", all, err)
	}
	u, err := c.Usage(ctx, "")
	if err != nil || len(u.Seconds) != 60 {
		t.Errorf("usage %+v, %v", u, err)
	}

	for _, r := range httpapi.Routes() {
		if r.Scope != access.Public && !called[r.Name] {
			t.Errorf("the client has no method for %s (%s)", r, r.Name)
		}
	}
}

var odd = json.RawMessage(`{"n":1.50,"s":"<\u00e9>","z":[null]}`)

func callEntityRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	e, created, err := c.CreateEntity(ctx, entity.Draft{ID: "e1", Type: "t", Attributes: odd})
	if err != nil || !created || e.ID != "e1" || e.Type != "t" || string(e.Attributes) != string(odd) {
		t.Fatalf("created %+v, %v, %v", e, created, err)
	}
	if again, created, err := c.CreateEntity(ctx, entity.Draft{ID: "e1", Type: "t", Attributes: odd}); err != nil || created || again.CreatedAt != e.CreatedAt {
		t.Fatalf("a repeat: %+v, %v, %v", again, created, err)
	}
	if _, _, err := c.CreateEntity(ctx, entity.Draft{ID: "e1", Type: "other"}); !errors.Is(err, client.ErrConflict) {
		t.Fatalf("other content: %v", err)
	}
	unnamed, created, err := c.CreateEntity(ctx, entity.Draft{})
	if err != nil || !created || len(unnamed.ID) != 36 || unnamed.Type != "entity" || string(unnamed.Attributes) != "{}" {
		t.Fatalf("without any field: %+v, %v, %v", unnamed, created, err)
	}
	if got, err := c.GetEntity(ctx, "e1"); err != nil || got.UpdatedAt != e.UpdatedAt || string(got.Attributes) != string(odd) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err := c.UpdateEntity(ctx, "e1", json.RawMessage(`{"n":null,"m":2}`)); err != nil || string(got.Attributes) != `{"s":"<\u00e9>","z":[null],"m":2}` {
		t.Fatalf("updated %s, %v", got.Attributes, err)
	}
	if page, err := c.ListEntities(ctx, client.EntityQuery{Type: "t", Limit: 1}); err != nil || len(page.Data) != 1 || page.NextCursor != nil {
		t.Fatalf("listed %+v, %v", page, err)
	}
	results, err := c.UpsertEntities(ctx, []entity.Draft{{ID: "e1", Attributes: json.RawMessage(`{"m":null}`)}, {ID: "e1", Type: "t2"}, {ID: "a b"}, {}})
	if err != nil || len(results) != 4 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if r := results[1]; r.Err != nil || r.Created || r.Record.Type != "t2" || string(r.Record.Attributes) != `{"s":"<\u00e9>","z":[null]}` {
		t.Errorf("merged: %+v", r)
	}
	if r := results[3]; results[2].Err == nil || r.Err != nil || !r.Created || len(r.Record.ID) != 36 {
		t.Errorf("with an invalid id: %+v, without one: %+v", results[2], r)
	}
	for range 2 {
		if err := c.DeleteEntity(ctx, "e1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.GetEntity(ctx, "e1"); !errors.Is(err, client.ErrNotFound) {
		t.Fatalf("after deletion: %v", err)
	}
}

func callEventRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	at, err := record.ParseTime("2026-01-02T15:04:05Z")
	if err != nil {
		t.Fatal(err)
	}
	v, created, err := c.CreateEvent(ctx, event.Draft{ID: "v1", Name: "n", EntityID: "e1", OccurredAt: &at, Attributes: odd})
	if err != nil || !created || v.OccurredAt != at || v.EntityID != "e1" {
		t.Fatalf("created %+v, %v, %v", v, created, err)
	}
	if got, err := c.GetEvent(ctx, "v1"); err != nil || string(got.Attributes) != string(odd) {
		t.Fatalf("got %+v, %v", got, err)
	}
	results, err := c.CreateEvents(ctx, []event.Draft{{Name: "b"}, {ID: "v1", Name: "other"}, {ID: "v1", Name: "n", EntityID: "e1", OccurredAt: &at, Attributes: odd}, {}})
	if err != nil || len(results) != 4 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if r := results[0]; r.Err != nil || !r.Created || len(r.Record.ID) != 36 {
		t.Errorf("a new event: %+v", r)
	}
	if r := results[1]; !errors.Is(r.Err, client.ErrConflict) {
		t.Errorf("other content: %+v", r)
	}
	if r := results[2]; r.Err != nil || r.Created || r.Record.CreatedAt != v.CreatedAt {
		t.Errorf("a repeat: %+v", r)
	}
	var failure *client.Error
	if r := results[3]; !errors.As(r.Err, &failure) || failure.Status != 422 || len(failure.Fields) != 1 || failure.Fields[0].Field != "name" {
		t.Errorf("without a name: %+v", r)
	}
	if results, err := c.CreateEvents(ctx, []event.Draft{{}, {}}); err != nil || len(results) != 2 || results[0].Err == nil || results[1].Err == nil {
		t.Errorf("a batch of bad events: %+v, %v", results, err)
	}
	if page, err := c.ListEvents(ctx, client.EventQuery{EntityID: "e1", From: &at, To: &at}); err != nil || len(page.Data) != 0 {
		t.Errorf("an empty range: %+v, %v", page, err)
	}
}

func callExportJobRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	at := record.Time{}
	order := api.ExportOrder{ID: "j1", Resource: record.Event, Format: record.CSV, Filters: api.ExportFilters{EntityID: "e1", From: &at}}
	j, created, err := c.CreateExportJob(ctx, order)
	if err != nil || !created || j.Status != job.Queued || j.Filters.EntityID != "e1" || j.Filters.From == nil || *j.Filters.From != at {
		t.Fatalf("created %+v, %v, %v", j, created, err)
	}
	if again, created, err := c.CreateExportJob(ctx, order); err != nil || created || again.CreatedAt != j.CreatedAt {
		t.Fatalf("a repeat: %+v, %v, %v", again, created, err)
	}
	order.CSVFormulas = api.KeepFormulas
	if _, _, err := c.CreateExportJob(ctx, order); !errors.Is(err, client.ErrConflict) {
		t.Fatalf("other content: %v", err)
	}
	if j, created, err := c.CreateExportJob(ctx, api.ExportOrder{Resource: record.Entity, Format: record.NDJSON}); err != nil || !created || len(j.ID) != 36 {
		t.Fatalf("without an id: %+v, %v, %v", j, created, err)
	}
	if got, err := c.GetExportJob(ctx, "j1"); err != nil || got.Status != job.Queued || got.DownloadURL != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	for range 2 {
		if j, err := c.CancelExportJob(ctx, "j1"); err != nil || j.Status != job.Cancelled {
			t.Fatalf("cancelled %+v, %v", j, err)
		}
	}
	if _, err := c.DeleteExportJob(ctx, order.ID+"-other"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a file of no job: %v", err)
	}
	if j, err := c.DeleteExportJob(ctx, "j1"); err != nil || j.Status != job.Cancelled || j.FileDeletedAt != nil {
		t.Errorf("a job without a file: %+v, %v", j, err)
	}
	var statuses []string
	for j, err := range c.ExportJobs(ctx, client.ExportJobQuery{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, string(j.Status))
	}
	if slices.Sort(statuses); fmt.Sprint(statuses) != "[cancelled queued]" {
		t.Errorf("the jobs are %v", statuses)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for address, target := range map[string]string{"": "/usage", "2001:db8::1": "/usage?address=2001%3Adb8%3A%3A1", "key:7m3kq2xw9abc": "/usage?key=7m3kq2xw9abc"} {
		c, err := client.New("http://service", client.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if got := r.Method + " " + r.URL.RequestURI(); got != "GET "+target {
				t.Errorf("%q: the client requests %s", address, got)
			}
			return respond(200, `{"counted":"address:a","address":"a","action":"observe","limit":5,"limits":{"records":7,"imports":6,"requests":5},"seconds":[{"second":9,"records":1,"imports":2,"requests":{"usage":3}}],"caller":{"workspace":"w","key_id":null,"scopes":["dashboard"]}}`), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		u, err := c.Usage(t.Context(), address)
		if got := fmt.Sprintf("%+v", u); err != nil || got != "{Counted:address:a Address:a Action:observe Limit:5 Limits:{Records:7 Imports:6 Requests:5} Seconds:[{Second:9 Records:1 Imports:2 Requests:map[usage:3]}] Day:<nil> Month:<nil> Caller:{Workspace:w KeyID:<nil> Scopes:[dashboard]} Identities:<nil>}" {
			t.Errorf("%q: %s, %v", address, got, err)
		}
	}
}

func TestUsageOfAll(t *testing.T) {
	t.Parallel()
	for sort, target := range map[string]string{"": "/usage?identities=minute", "refused": "/usage?identities=minute&sort=refused"} {
		c, err := client.New("http://service", client.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if got := r.Method + " " + r.URL.RequestURI(); got != "GET "+target {
				t.Errorf("%q: the client requests %s", sort, got)
			}
			return respond(200, `{"counted":"address:a","identities":{"period":"minute","start":9,"data":[{"counted":"key:k","name":"n","workspace":"w","action":"limit","records":1,"imports":2,"requests":3,"refused":4,"share":0.5}],"left_out":7,"complete":true}}`), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.UsageOfAll(t.Context(), "minute", sort)
		if err != nil || list.Period != "minute" || list.LeftOut != 7 || !list.Complete || len(list.Data) != 1 {
			t.Fatalf("%q: %+v, %v", sort, list, err)
		}
		if u := list.Data[0]; u.Counted != "key:k" || u.Workspace != "w" || *u.Requests != 3 || *u.Refused != 4 || *u.Share != 0.5 {
			t.Errorf("%q: %+v", sort, u)
		}
	}
}

// Rejected is false after a refusal, a timeout or a server error, or if the context ended.
func TestRejected(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{301: true, 400: true, 401: true, 403: true, 404: true, 499: true, 408: false, 429: false, 500: false, 501: false, 503: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
		defer server.Close()
		for _, canceled := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := client.Config{MaxTries: 1}
			if canceled {
				cfg = client.Config{OnTry: func(client.Try) { cancel() }}
			}
			c, err := client.New(server.URL, cfg)
			if err != nil {
				t.Fatal(err)
			}
			var failure *client.Error
			if _, err := c.GetEntity(ctx, "a"); !errors.As(err, &failure) || failure.Status != status || failure.Rejected() != (want && !canceled) {
				t.Errorf("status %d, canceled %v: %+v", status, canceled, failure)
			}
		}
	}
}

// An invalid id must not lead to another route, and an invalid query must not become a
// different query.
func TestInvalidArgumentsAreRejectedWithoutARequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("a request was sent:", r.URL) }))
	defer server.Close()
	c, err := client.New(server.URL, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "a/b", "a?b", "a b", strings.Repeat("a", 129)} {
		var failure *client.Error
		if _, err := c.GetEntity(t.Context(), id); !errors.As(err, &failure) || failure.Code != "invalid_id" {
			t.Errorf("%q: %v", id, err)
		}
	}
	for name, where := range map[string][]client.Condition{
		"no condition":      nil,
		"an operator twice": {{Attribute: "born", Operator: "gt", Value: "1"}, {Attribute: "born", Operator: "gt", Value: "2"}},
	} {
		var failure *client.Error
		q := client.FindQuery{Type: "person", Where: where}
		if _, err := c.FindEntities(t.Context(), q); !errors.As(err, &failure) || failure.Code != "invalid_parameter" || !strings.Contains(failure.Detail, "Where") {
			t.Errorf("%s: %v", name, err)
		}
		for _, err := range c.Found(t.Context(), q) {
			if !errors.As(err, &failure) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestNewRejectsInvalidURLsAndKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, key, want string
	}{
		{"", "", "like https://host"},
		{"localhost:3000", "", "like https://host"},
		{"ftp://host", "", "like https://host"},
		{"http://u:p@host", "", "no user"},
		{"http://host?a=b", "", "no user, query"},
		{"http://host", "slc_1_se cret", "printable"},
		{"http://host", "slc_1_secret\n", "printable"},
	} {
		_, err := client.New(tt.url, client.Config{Key: tt.key})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q, %q: %v", tt.url, tt.key, err)
		}
	}
	for _, cfg := range []client.Config{{MaxTries: -1}, {Share: -0.1}, {Share: 1.1}, {Share: math.NaN()}} {
		if _, err := client.New("https://host/stage/", cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
