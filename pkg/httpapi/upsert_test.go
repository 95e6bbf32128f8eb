package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// upsert returns the results even if the response is a problem.
func (a service) upsert(t *testing.T, body string) (resp events.APIGatewayV2HTTPResponse, results []api.BatchResult) {
	t.Helper()
	resp = a.post(t, "upsert-entities", body)
	var got struct {
		Results []api.BatchResult `json:"results"`
	}
	if err := json.Unmarshal([]byte(resp.Body), &got); err != nil {
		t.Fatalf("%v: %s", err, resp.Body)
	}
	return resp, got.Results
}

// resultStatuses returns the statuses in order, or describes the first inconsistent result.
func resultStatuses(results []api.BatchResult) string {
	var all []string
	for i, r := range results {
		if r.Index != i || r.Problem != nil && r.Problem.Status != r.Status {
			return fmt.Sprintf("result %d is %+v", i, r)
		}
		all = append(all, fmt.Sprint(r.Status))
	}
	return strings.Join(all, " ")
}

// contents returns the type and attributes of every entity, by id.
func (a service) contents(t *testing.T) map[string]string {
	t.Helper()
	page, err := a.stores.Entities.List(t.Context(), "default", entity.Query{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	contents := make(map[string]string)
	for _, e := range page.Records {
		contents[e.ID] = e.Type + " " + string(e.Attributes)
	}
	return contents
}

func TestUpsertHasAResultForEachEntity(t *testing.T) {
	large := `{"id":"large","attributes":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`
	for _, tt := range []struct {
		name, body string
		status     int
		statuses   string
		again      string // the statuses when the batch is repeated
		stored     map[string]string
	}{
		{"new entities", `{"id":"a","type":"t"},{"id":"b","attributes":{"n":1.50,"gone":null}}`, 201, "201 201", "200 200", map[string]string{"a": "t {}", "b": `entity {"n":1.50}`}},
		{"an existing entity", `{"id":"old","attributes":{"a":null,"b":2}}`, 200, "200", "200", map[string]string{"old": `person {"b":2}`}},
		{"another type", `{"id":"old","type":"robot"}`, 200, "200", "200", map[string]string{"old": `robot {"a":1}`}},
		{"null members", `{"id":"old","type":null,"attributes":null}`, 200, "200", "200", nil},
		{"the same id, applied in order", `{"id":"a","attributes":{"n":1,"m":1}},{"id":"a","attributes":{"n":2}},{"id":"a","type":"t","attributes":{"m":null}}`, 207, "201 200 200", "200 200 200", map[string]string{"a": `t {"n":2}`}},
		{"every result at once", `{"id":"a"},{"id":"old"},{"id":"a b"},{"id":"b","type":""},7,{"x":1},` + large, 207, "201 200 422 422 422 422 413", "200 200 422 422 422 422 413", map[string]string{"a": "entity {}"}},
		{"replaced", `{"id":"old","type":"robot","attributes":{"b":null},"replace":true}`, 200, "200", "200", map[string]string{"old": `robot {"b":null}`}},
		{"deleted", `{"id":"old","deleted":true},{"id":"a","attributes":{"n":1}}`, 207, "200 201", "200 200", map[string]string{"old": "", "a": `entity {"n":1}`}},
		{"a tombstone of a walk", `{"id":"old","type":"person","revision":2,"created_at":"2026-01-02T15:04:05.678Z","deleted_at":"2026-01-02T15:04:05.678Z","deleted":true,"erased":true,"erased_at":"2026-01-02T15:04:05.678Z"}`, 200, "200", "200", map[string]string{"old": ""}},
		{"what left a filter", `{"id":"old","type":"person","revision":2,"updated_at":"2026-01-02T15:04:05.678Z","deleted":true,"reason":"filter"}`, 422, "422", "422", nil},
		{"a deletion without an id", `{"deleted":true},{"id":"old","deleted":false,"replace":null}`, 207, "422 200", "422 200", nil},
		{"all invalid", `{"id":"."},null`, 422, "422 422", "422 422", nil},
		{"all too large", large, 413, "413", "413", nil},
		{"an invalid element between others with the same id", `{"id":"a","attributes":{"n":1}},{"id":"a","attributes":7},{"id":"a","attributes":{"m":2}}`, 207, "201 422 200", "200 422 200", map[string]string{"a": `entity {"n":1,"m":2}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newRoomyAPI(t)
			a.post(t, "create-entity", `{"id":"old","type":"person","attributes":{"a":1}}`)
			resp, results := a.upsert(t, `{"entities":[`+tt.body+`]}`)
			if resp.StatusCode != tt.status || resultStatuses(results) != tt.statuses {
				t.Errorf("%d with %s, want %d with %s: %.500s", resp.StatusCode, resultStatuses(results), tt.status, tt.statuses, resp.Body)
			}
			if failed := resp.StatusCode >= 400; failed != (resp.Headers["Content-Type"] == "application/problem+json") {
				t.Errorf("%d as %s: %.500s", resp.StatusCode, resp.Headers["Content-Type"], resp.Body)
			}
			for range 2 {
				want := map[string]string{"old": `person {"a":1}`}
				maps.Copy(want, tt.stored)
				maps.DeleteFunc(want, func(_, content string) bool { return content == "" })
				if got := a.contents(t); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("stored %v, want %v", got, want)
				}
				if _, results := a.upsert(t, `{"entities":[`+tt.body+`]}`); resultStatuses(results) != tt.again {
					t.Errorf("a repeat: %s, want %s", resultStatuses(results), tt.again)
				}
			}
		})
	}
}

func TestUpsertWithoutIDsCreates(t *testing.T) {
	a := newRoomyAPI(t)
	resp, results := a.upsert(t, `{"entities":[{},{"id":null}]}`)
	if resp.StatusCode != 201 || len(a.contents(t)) != 2 || results[0].Entity.ID == results[1].Entity.ID {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
}

func TestUpsertIsOneImportCall(t *testing.T) {
	a := newAPI(t)
	hundred := strings.TrimSuffix(strings.Repeat(`{"id":"a"},{"id":"b"},`, 50), ",")
	resp, results := a.upsert(t, `{"entities":[`+hundred+`]}`)
	if resp.StatusCode != 207 || len(results) != 100 || !strings.Contains(resp.Headers["RateLimit"], `"imports";r=199`) {
		t.Errorf("%d %v", resp.StatusCode, resp.Headers)
	}
	for _, body := range []string{`{}`, `{"entities":[]}`, `{"entities":null}`, `{"entities":[` + hundred + `,{}]}`, `{"entities":{}}`, `{"events":[{}]}`} {
		if resp, _ := a.upsert(t, body); resp.StatusCode != 422 {
			t.Errorf("%.40s: %d %s", body, resp.StatusCode, resp.Body)
		}
	}
}

type faulty struct {
	entity.Store
	fail func(id string) error // GetEach passes "" as the id
}

func (s *faulty) GetEach(ctx context.Context, workspace string, ids []string) (map[string]entity.Change, error) {
	if err := s.fail(""); err != nil {
		return nil, err
	}
	return s.Store.GetEach(ctx, workspace, ids)
}

func (s *faulty) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	if err := s.fail(w.ID); err != nil {
		return entity.Change{}, false, err
	}
	return s.Store.Write(ctx, workspace, w)
}

func TestAnUpsertThatFailsInPartCanBeRepeated(t *testing.T) {
	a := newRoomyAPI(t)
	secret := func() error { return record.UnavailableError("get", errors.New("secret")) }
	store := &faulty{Store: a.stores.Entities}
	a.stores.Entities = store
	body := `{"entities":[{"id":"a"},{"id":"b","attributes":{"n":1}},{"id":"b","attributes":{"n":2}},{"id":"c"}]}`
	for _, step := range []struct {
		name     string
		fail     func(id string) error
		status   int
		statuses string
	}{
		{"the store is unavailable", func(string) error { return secret() }, 503, "503 503 503 503"},
		{"the store fails", func(string) error { return errors.New("secret") }, 500, "500 500 500 500"},
		{"the store fails for some entities", func(id string) error {
			switch id {
			case "b":
				return secret()
			case "c":
				panic("secret")
			}
			return nil
		}, 207, "201 503 503 500"},
		{"the store is available", func(string) error { return nil }, 207, "200 201 200 201"},
	} {
		store.fail = step.fail
		resp, results := a.upsert(t, body)
		if resp.StatusCode != step.status || resultStatuses(results) != step.statuses || strings.Contains(resp.Body, "secret") {
			t.Errorf("%s: %d with %s, want %d with %s: %s", step.name, resp.StatusCode, resultStatuses(results), step.status, step.statuses, resp.Body)
		}
	}
	if got := a.contents(t)["b"]; got != `entity {"n":2}` {
		t.Errorf("b is %s", got)
	}
}

// Small updates to large entities could exceed the response size that Lambda allows.
func TestResultsOfLargeEntitiesAreBounded(t *testing.T) {
	const entities = 15
	a := newRoomyAPI(t)
	var body []string
	for i := range entities {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"%d","attributes":{"a":%q}}`, i, strings.Repeat("x", 250<<10)))
		body = append(body, fmt.Sprintf(`{"id":"%d","attributes":{"b":1}}`, i))
	}
	resp, results := a.upsert(t, `{"entities":[`+strings.Join(body, ",")+`]}`)
	with := 0
	for i, r := range results {
		if r.Entity != nil && with == i {
			with++
		} else if r.Entity != nil {
			t.Errorf("result %d has an entity, and one before it has not", i)
		}
	}
	if resp.StatusCode != 200 || len(results) != entities || len(resp.Body) > record.MaxPageBytes+5000 || with != record.MaxPageBytes/(250<<10) {
		t.Errorf("%d with %d bytes, %d results, %d with an entity", resp.StatusCode, len(resp.Body), len(results), with)
	}
}
