package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/record"
)

type outcome struct {
	Status  int    `json:"status"` // set only if the body is a problem
	Code    string `json:"code"`
	Results []struct {
		Index   int `json:"index"`
		Status  int `json:"status"`
		Event   *event.Event
		Problem *struct {
			Status int                 `json:"status"`
			Code   string              `json:"code"`
			Detail string              `json:"detail"`
			Errors []record.FieldError `json:"errors"`
		} `json:"problem"`
	} `json:"results"`
}

func (o outcome) statuses() string {
	var all []string
	for i, r := range o.Results {
		s := fmt.Sprint(r.Status)
		if r.Index != i || (r.Event == nil) == (r.Problem == nil) || r.Problem != nil && r.Problem.Status != r.Status {
			s += "?"
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func (a service) batch(t *testing.T, body string) (events.APIGatewayV2HTTPResponse, outcome) {
	t.Helper()
	resp := a.post(t, "create-events", body)
	var o outcome
	if err := json.Unmarshal([]byte(resp.Body), &o); err != nil {
		t.Fatalf("%v: %s", err, resp.Body)
	}
	return resp, o
}

// list returns the names of all events by id.
func (a service) list(t *testing.T) map[string]string {
	t.Helper()
	page, err := a.stores.Events.List(t.Context(), "default", event.Query{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for _, e := range page.Records {
		names[e.ID] = e.Name
	}
	return names
}

func TestABatchHasAResultForEachEvent(t *testing.T) {
	large := `{"id":"large","name":"n","attributes":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`
	for _, tt := range []struct {
		name, body string
		status     int
		statuses   string
		stored     int
	}{
		{"all new", `{"id":"a","name":"n"},{"id":"b","name":"n"}`, 201, "201 201", 2},
		{"all repeated", `{"id":"old","name":"n"},{"name":"n","id":"old"}`, 200, "200 200", 0},
		{"new and repeated", `{"id":"a","name":"n"},{"id":"old","name":"n"}`, 207, "201 200", 1},
		{"without ids", `{"name":"n"},{"name":"n"}`, 201, "201 201", 2},
		{"every result at once", `{"id":"a","name":"n"},{"id":"old","name":"n"},{"id":"old","name":"m"},{"id":"b"},7,` + large, 207, "201 200 409 422 422 413", 1},
		{"all invalid", `{"id":"a"},{"nmae":"n"},null`, 422, "422 422 422", 0},
		{"all conflicting", `{"id":"old","name":"m"}`, 409, "409", 0},
		{"all too large", large, 413, "413", 0},
		{"the same id and content", `{"id":"a","name":"n"},{"id":"a","name":"n"}`, 207, "201 200", 1},
		{"the same id, the first event is stored", `{"id":"a","name":"n"},{"id":"a","name":"m"},{"id":"a","name":"n"}`, 207, "201 409 200", 1},
		{"the same id, the first valid event is stored", `{"id":"a"},{"id":"a","name":"m"},{"id":"a","name":"n"}`, 207, "422 201 409", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newRoomyAPI(t)
			a.post(t, "create-event", `{"id":"old","name":"n"}`)
			for try := range 2 {
				if try > 0 && tt.name == "without ids" {
					break // without ids, a repeated request creates new events
				}
				resp, got := a.batch(t, `{"events":[`+tt.body+`]}`)
				want, status := tt.statuses, tt.status
				if try > 0 && tt.stored > 0 { // a repeated request finds what the first one stored
					want, status = strings.ReplaceAll(want, "201", "200"), resp.StatusCode
				}
				if resp.StatusCode != status || got.statuses() != want {
					t.Errorf("try %d: %d with %s, want %d with %s: %.500s", try, resp.StatusCode, got.statuses(), status, want, resp.Body)
				}
				if failed := resp.StatusCode >= 400; failed != (resp.Headers["Content-Type"] == "application/problem+json") || failed && (got.Status != resp.StatusCode || got.Code == "") {
					t.Errorf("try %d: %d as %s: %.500s", try, resp.StatusCode, resp.Headers["Content-Type"], resp.Body)
				}
			}
			if n := len(a.list(t)) - 1; n != tt.stored {
				t.Errorf("%d events are stored, want %d", n, tt.stored)
			}
		})
	}
}

func TestABatchThatCannotBeReadStoresNothing(t *testing.T) {
	a := newRoomyAPI(t)
	hundred := strings.TrimSuffix(strings.Repeat(`{"name":"n"},`, 100), ",")
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"no events", `{}`, 422, "invalid_body"},
		{"null", `{"events":null}`, 422, "invalid_body"},
		{"an empty array", `{"events":[]}`, 422, "invalid_body"},
		{"no array", `{"events":{"id":"a","name":"n"}}`, 422, "invalid_body"},
		{"101 events", `{"events":[` + hundred + `,{"name":"n"}]}`, 422, "invalid_body"},
		{"a bare array", `[{"name":"n"}]`, 400, "malformed_json"},
		{"an unknown member", `{"events":[{"name":"n"}],"x":1}`, 422, "invalid_body"},
		{"a broken event after a good one", `{"events":[{"name":"n"},{"name":}]}`, 400, "malformed_json"},
		{"a duplicate name in one event", `{"events":[{"name":"n"},{"name":"n","name":"m"}]}`, 400, "malformed_json"},
		{"a lone surrogate in one event", `{"events":[{"name":"n"},{"name":"\ud800"}]}`, 400, "malformed_json"},
		{"more than a megabyte", `{"events":[{"name":"n"}` + strings.Repeat(" ", 1<<20) + `]}`, 413, "body_too_large"},
	} {
		if resp, got := a.batch(t, tt.body); resp.StatusCode != tt.status || got.Code != tt.code || got.Results != nil {
			t.Errorf("%s: %d %.500s", tt.name, resp.StatusCode, resp.Body)
		}
	}
	if got := a.list(t); len(got) != 0 {
		t.Errorf("%v are stored", got)
	}
	if resp, got := a.batch(t, `{"events":[`+hundred+`]}`); resp.StatusCode != 201 || len(got.Results) != 100 {
		t.Errorf("100 events: %d %.500s", resp.StatusCode, resp.Body)
	}
}

type flaky struct {
	event.Store
	fail func(id string) error
}

func (s flaky) Create(ctx context.Context, workspace string, d event.Draft) (event.Event, bool, error) {
	if err := s.fail(d.ID); err != nil {
		return event.Event{}, false, err
	}
	return s.Store.Create(ctx, workspace, d)
}

func TestABatchThatFailsInPartCanBeRepeatedWhole(t *testing.T) {
	a := newRoomyAPI(t)
	store, failed := a.stores.Events, false
	body := `{"events":[{"id":"a","name":"n"},{"id":"b","name":"n"},{"id":"b","name":"m"},{"id":"c","name":"n"},{"id":"d"}]}`
	for _, step := range []struct {
		name     string
		fail     func(id string) error
		status   int
		statuses string
	}{
		{"the store is unavailable", func(string) error { return record.UnavailableError("create", errors.New("secret")) }, 207, "503 503 503 503 422"},
		{"the store is unavailable for the first of two events with the same id", func(id string) error {
			if id == "b" && !failed {
				failed = true
				return record.UnavailableError("create", errors.New("secret"))
			}
			return nil
		}, 207, "201 503 503 201 422"},
		{"a fault of the service", func(id string) error {
			switch id {
			case "b":
				panic("secret")
			case "c":
				return errors.New("secret")
			}
			return nil
		}, 207, "200 500 500 500 422"},
		{"the store is available", func(string) error { return nil }, 207, "200 201 409 200 422"},
		{"the store is still available", func(string) error { return nil }, 207, "200 200 409 200 422"},
	} {
		a.stores.Events = flaky{store, step.fail}
		resp, got := a.batch(t, body)
		if resp.StatusCode != step.status || got.statuses() != step.statuses || strings.Contains(resp.Body, "secret") {
			t.Errorf("%s: %d with %s, want %d with %s: %s", step.name, resp.StatusCode, got.statuses(), step.status, step.statuses, resp.Body)
		}
	}
	if got := a.list(t); len(got) != 3 || got["b"] != "n" {
		t.Errorf("%v are stored", got)
	}
	a.stores.Events = flaky{store, func(string) error { return record.UnavailableError("create", errors.New("secret")) }}
	resp, got := a.batch(t, `{"events":[{"id":"a","name":"n"},{"id":"b","name":"n"}]}`)
	if resp.StatusCode != 503 || got.statuses() != "503 503" || resp.Headers["Retry-After"] != "1" || got.Code != "store_unavailable" || strings.Contains(resp.Body, "secret") {
		t.Errorf("all unavailable: %d %v %s", resp.StatusCode, resp.Headers, resp.Body)
	}
}

// crowd counts concurrent calls. The first call waits until another call joins it, so that the
// count does not depend on the scheduler.
type crowd struct {
	mu        sync.Mutex
	now, most int
	joined    chan struct{} // closed when two calls run concurrently
}

func (c *crowd) enter() (leave func()) {
	c.mu.Lock()
	c.now++
	first := c.most == 0
	if c.most < c.now {
		if c.most = c.now; c.most == 2 {
			close(c.joined)
		}
	}
	c.mu.Unlock()
	if first {
		select {
		case <-c.joined:
		case <-time.After(10 * time.Second):
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}
}

type (
	crowdedEvents struct {
		event.Store
		*crowd
	}
	crowdedEntities struct {
		entity.Store
		*crowd
	}
)

func (s crowdedEvents) Create(ctx context.Context, workspace string, d event.Draft) (event.Event, bool, error) {
	defer s.enter()()
	return s.Store.Create(ctx, workspace, d)
}

func (s crowdedEntities) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	defer s.enter()()
	return s.Store.Write(ctx, workspace, w)
}

func TestABatchWritesFewRecordsAtOnce(t *testing.T) {
	for _, kind := range [][3]string{{"create-events", "events", "name"}, {"upsert-entities", "entities", "type"}} {
		route, member, required := kind[0], kind[1], kind[2]
		a := newRoomyAPI(t)
		c := &crowd{joined: make(chan struct{})}
		a.stores.Events, a.stores.Entities = crowdedEvents{a.stores.Events, c}, crowdedEntities{a.stores.Entities, c}
		var body []string
		for i := range 100 {
			body = append(body, fmt.Sprintf(`{"id":"%d","%s":"n"}`, i, required))
		}
		if resp := a.post(t, route, `{"`+member+`":[`+strings.Join(body, ",")+`]}`); resp.StatusCode != 201 {
			t.Errorf("%s: %d %.300s", route, resp.StatusCode, resp.Body)
		}
		if c.most > httpapi.BatchWriters || c.most < 2 {
			t.Errorf("%s: %d records were written at once, want 2 to %d", route, c.most, httpapi.BatchWriters)
		}
		if n := len(a.list(t)) + len(a.contents(t)); n != 100 {
			t.Errorf("%s: %d records are stored", route, n)
		}
	}
}
