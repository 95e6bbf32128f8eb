package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"sluice/internal/test/lambdatest"
)

// Lists skip expired events, whose ids can be used again.
func TestExpiredEventsAreHidden(t *testing.T) {
	a, at, opts := newAPI(t), now(), options
	opts.EventRetentionDays = 7
	opts.Now = func() time.Time { return at }
	*a.now = opts.Now
	call := func(route, method, target, body string, status int) string {
		t.Helper()
		ev := lambdatest.Event(method, target, "192.0.2.1", body)
		resp := serve(t, newFunction(t, route, a, opts), ev)
		if resp.StatusCode != status {
			t.Fatalf("%s %s: %d %s, want %d", method, target, resp.StatusCode, resp.Body, status)
		}
		return resp.Body
	}
	list := func(query string) (ids []string) {
		t.Helper()
		for target := "/event?limit=2&" + query; target != ""; {
			var page syncPage
			if err := json.Unmarshal([]byte(call("list-event", "GET", target, "", http.StatusOK)), &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Data {
				ids = append(ids, e.ID)
			}
			target = ""
			if page.NextCursor != nil {
				target = "/event?limit=2&" + query + "&cursor=" + url.QueryEscape(*page.NextCursor)
			}
		}
		return ids
	}
	create := func(id string) {
		t.Helper()
		body := fmt.Sprintf(`{"events":[{"id":"%s","name":"n","entity_id":"ada","occurred_at":"2026-01-01T00:00:00Z"}]}`, id)
		call("create-events", "POST", "/create_events", body, http.StatusCreated)
	}
	for i := range 12 { // more than the number of expired events that one Create deletes
		create(fmt.Sprint("b", 10+i))
	}
	at = at.AddDate(0, 0, 6)
	create("a")
	call("create-event", "POST", "/create_event", `{"id":"c","name":"n","entity_id":"ada","occurred_at":"2026-01-01T00:00:00Z"}`, http.StatusCreated)
	queries := []string{"order=asc", "order=desc", "order=asc&entity_id=ada", "created_since=2026-01-01T00:00:00Z&order=desc"}
	for _, query := range queries {
		if ids := list(query); len(ids) != 14 {
			t.Errorf("%s: %q before the expiry", query, ids)
		}
	}
	at = at.AddDate(0, 0, 1)
	for _, query := range queries {
		ids := list(query)
		if slices.Sort(ids); !slices.Equal(ids, []string{"a", "c"}) {
			t.Errorf("%s: %q after the expiry", query, ids)
		}
	}
	call("get-event", "GET", "/event/b10", "", http.StatusNotFound)
	call("get-event", "GET", "/event/a", "", http.StatusOK)
	call("create-event", "POST", "/create_event", `{"id":"b10","name":"other"}`, http.StatusCreated)
	call("get-event", "GET", "/event/b10", "", http.StatusOK)

	opts.EventRetentionDays = 0
	call("create-event", "POST", "/create_event", `{"id":"kept","name":"n"}`, http.StatusCreated)
	at = at.AddDate(100, 0, 0)
	if ids := list("order=asc"); !slices.Equal(ids, []string{"kept"}) {
		t.Errorf("%q after 100 years", ids)
	}
}
