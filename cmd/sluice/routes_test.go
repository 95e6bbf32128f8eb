package main

import (
	"net/http"
	"strings"
	"testing"
)

// Each route responds as docs/api.md describes, with both kinds of store. Package httpapi
// tests more invalid requests.
func TestEveryRouteAnswers(t *testing.T) {
	t.Parallel()
	steps := []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"born":1815,"n":1.50}}`, 201, `"attributes":{"born":1815,"n":1.50}`},
		{"POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"n":1.50,"born":1815}}`, 200, `"attributes":{"born":1815,"n":1.50}`},
		{"POST", "/create_entity", `{"id":"ada","type":"robot"}`, 409, `"code":"conflict"`},
		{"POST", "/create_entity", `{"id":"hal","type":"robot"}`, 201, `"type":"robot"`},
		{"GET", "/entity/ada", "", 200, `"id":"ada"`},
		{"GET", "/entity?type=robot", "", 200, `{"data":[{"id":"hal"`},
		{"GET", "/entity?type=person&limit=1", "", 200, `"next_cursor":null`},
		{"POST", "/update_entity", `{"id":"ada","attributes":{"born":null,"field":"mathematics"}}`, 200, `"attributes":{"n":1.50,"field":"mathematics"}`},
		{"GET", "/entity/ada", "", 200, `"attributes":{"n":1.50,"field":"mathematics"}`},
		{"POST", "/update_entity", `{"id":"bob","attributes":{}}`, 404, `"code":"not_found"`},
		{"POST", "/delete_entity", `{"id":"hal"}`, 200, `{"id":"hal","deleted":true}`},
		{"POST", "/delete_entity", `{"id":"hal"}`, 200, `{"id":"hal","deleted":true}`},
		{"GET", "/entity/hal", "", 404, `"code":"not_found"`},
		{"GET", "/entity?type=robot", "", 200, `{"data":[],"next_cursor":null}`},
		{"POST", "/create_event", `{"id":"e1","name":"signed_up","entity_id":"ada","occurred_at":"2026-01-01T00:00:00Z"}`, 201, `"occurred_at":"2026-01-01T00:00:00.000Z"`},
		{"POST", "/create_events", `{"events":[{"id":"e2","name":"n","occurred_at":"2026-01-02T00:00:00Z"},{"id":"e3","name":"n","entity_id":"ada","occurred_at":"2026-01-03T00:00:00Z"}]}`, 201, `{"results":[{"index":0,"status":201,"event":{"id":"e2"`},
		{"POST", "/create_events", `{"events":[{"id":"e2","name":"m"},{"id":"e4","name":"n","occurred_at":"2026-01-04T00:00:00Z"},{}]}`, 207, `"index":2,"status":422,"problem":`},
		{"GET", "/event/e2", "", 200, `"name":"n"`},
		{"GET", "/event/e9", "", 404, `"code":"not_found"`},
		{"GET", "/event?order=asc", "", 200, `{"data":[{"id":"e1"`},
		{"GET", "/event?limit=1", "", 200, `{"data":[{"id":"e4"`},
		{"GET", "/event?entity_id=ada&limit=1", "", 200, `{"data":[{"id":"e3"`},
		{"GET", "/event?from=2026-01-02T00:00:00Z&to=2026-01-03T00:00:00Z", "", 200, `{"data":[{"id":"e2"`},
		{"GET", "/usage", "", 200, `"list-event":`},
		{"GET", "/usage?address=127.9.9.9", "", 200, `"requests":{}`},
		{"GET", "/dashboard", "", 200, "<!doctype html>"},
		{"GET", "/dashboard/0123456789abcdef/app.js", "", 200, "class ApiError"},
		{"GET", "/dashboard/nothing", "", 404, `"code":"no_such_route"`},
		{"GET", "/nowhere", "", 404, `"code":"no_such_route"`},
		{"DELETE", "/entity/ada", "", 405, `"code":"method_not_allowed"`},

		{"POST", "/create_event", `{"name":`, 400, "well-formed"},
		{"POST", "/create_event", `{"name":"a","nmae":"b"}`, 422, "nmae is not a field"},
		{"POST", "/create_entity", strings.Repeat("x", 12<<20), 413, "larger than 262144"},
		{"GET", "/entity?limit=0", "", 400, "limit must be a whole number from 1 to 200"},
		{"GET", "/entity/a%2Fb", "", 400, "id in the path"},
		{"GET", "/create_event", "", 405, "use POST"},

		{"POST", "/upsert_entities", `{"entities":[{"id":"bob"},{"id":"eve"},{"id":"cleo"}]}`, 201, `"status":201`},
	}
	onEachBackend(t, append([]string{"EVENT_SHARDS=4"}, unlimited...), func(t *testing.T, s *server) {
		c := s.client(t)
		for _, step := range steps {
			r := c.check(t, step.method, step.target, step.body)
			if r.status != step.status || !strings.Contains(r.body, step.want) {
				t.Errorf("%s %s %.100s: %d %s, want %d with %s", step.method, step.target, step.body, r.status, r.body, step.status, step.want)
			}
			if wantProblem := step.status >= http.StatusBadRequest; wantProblem != (r.header.Get("Content-Type") == "application/problem+json") || wantProblem && !strings.Contains(r.body, `"instance":"`) {
				t.Errorf("%s %s: Content-Type %s, %s", step.method, step.target, r.header.Get("Content-Type"), r.body)
			}
			if (r.header.Get("Allow") != "") != (step.status == http.StatusMethodNotAllowed) {
				t.Errorf("%s %s: Allow: %q", step.method, step.target, r.header.Get("Allow"))
			}
			checkLimitHeaders(t, r)
		}
	})
}
