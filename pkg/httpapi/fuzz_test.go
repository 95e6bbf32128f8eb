package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
	"sluice/pkg/record"
)

// fuzzed maps route names to the handlers of an API without limits.
type fuzzed map[string]http.Handler

func newFuzzed(f *testing.F) fuzzed {
	f.Helper()
	a := newRoomyAPI(f)
	handlers := make(fuzzed)
	for _, r := range httpapi.Routes() {
		var err error
		if handlers[r.Name], err = httpapi.NewFunction(r.Name, a.limiter, a.stores, options); err != nil {
			f.Fatal(err)
		}
	}
	return handlers
}

func (f fuzzed) invoke(t testing.TB, route string, ev events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	return serve(t, f[route], ev)
}

func (f fuzzed) post(t testing.TB, route string, body []byte) events.APIGatewayV2HTTPResponse {
	t.Helper()
	// API Gateway base64-encodes a body that it considers binary.
	ev := lambdatest.Event("POST", "/"+strings.ReplaceAll(route, "-", "_"), "192.0.2.1", base64.StdEncoding.EncodeToString(body))
	ev.IsBase64Encoded = true
	ev.Headers["content-type"] = "application/json"
	return f.invoke(t, route, ev)
}

func (f fuzzed) get(t testing.TB, route, target string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	return f.invoke(t, route, lambdatest.Event("GET", target, "192.0.2.1", ""))
}

// checkResponse fails the test if the response is a 429 or a server error, or if it lacks rate
// limit headers or a JSON body.
func checkResponse(t *testing.T, resp events.APIGatewayV2HTTPResponse) {
	t.Helper()
	if resp.StatusCode < 200 || resp.StatusCode >= 500 || resp.StatusCode == 429 {
		t.Errorf("status %d: %.500s", resp.StatusCode, resp.Body)
	}
	if !json.Valid([]byte(resp.Body)) || !utf8.ValidString(resp.Body) {
		t.Errorf("the body is not JSON: %.500q", resp.Body)
	}
	if resp.Headers["X-RateLimit-Limit"] == "" {
		t.Errorf("no limit headers: %v", resp.Headers)
	}
	problem := resp.Headers["Content-Type"] == "application/problem+json"
	if problem != (resp.StatusCode >= 400) {
		t.Errorf("%d as %s", resp.StatusCode, resp.Headers["Content-Type"])
	}
}

// A route that creates a record returns the attributes that it was sent. If a request with an id
// succeeds, repeating it returns the same body.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"id":"a","name":"n"}`, `{"name":"n","entity_id":"ada","occurred_at":"2026-01-02T15:04:05Z","attributes":{"plan":"free"}}`,
		`{"id":"a","type":"t","attributes":{"n":12345678901234567890.10,"e":1E+400,"z":-0}}`,
		`{"id":"a","name":"n","attributes":{"":"","\u0000":"\ud83d\ude00","b":[null,{"c":[]}]}}`,
		`{"id":"a","events":true}`, `{"id":"a","attributes":{"x":null}}`, `{"events":[{"id":"a","name":"n"},{"id":"a","name":"m"},{},7,null]}`,
		`{"events":[]}`, `{"id":"a","id":"b"}`, `{"name":"\ud800"}`, "{\"name\":\"\xff\"}", "\ufeff{}", `[]`, ``, `{`, `null`,
		`{"name":"n","occurred_at":"0000-01-01T00:00:00Z"}`, `{"name":"n","occurred_at":"9999-12-31T23:59:59-00:01"}`,
		`{"attributes":{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`,
	} {
		f.Add([]byte(body))
	}
	a := newFuzzed(f)
	routes := []string{"create-entity", "update-entity", "create-event", "create-events", "delete-entity"}
	f.Fuzz(func(t *testing.T, body []byte) {
		send := func(route string) events.APIGatewayV2HTTPResponse { return a.post(t, route, body) }
		for _, route := range routes {
			resp := send(route)
			checkResponse(t, resp)
			if resp.StatusCode != 201 && (resp.StatusCode != 200 || route == "delete-entity") {
				continue
			}
			var sent, got struct {
				ID         *string         `json:"id"`
				Attributes json.RawMessage `json:"attributes"`
			}
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Fatalf("%s accepted invalid JSON: %v: %q", route, err, body)
			}
			if err := json.Unmarshal([]byte(resp.Body), &got); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(route, "create-e") && route != "create-events" && len(sent.Attributes) > 0 && string(sent.Attributes) != "null" {
				var compact bytes.Buffer
				if err := json.Compact(&compact, sent.Attributes); err != nil || !record.SameAttributes(compact.Bytes(), got.Attributes) {
					t.Errorf("%s: sent %q, got %q", route, compact.Bytes(), got.Attributes)
				}
				if resp.StatusCode == 201 && compact.String() != string(got.Attributes) {
					t.Errorf("%s: sent %q, got %q", route, compact.Bytes(), got.Attributes)
				}
			}
			if sent.ID != nil {
				again := send(route)
				if again.StatusCode != 200 || again.Body != resp.Body {
					t.Errorf("%s repeated: %d %s, first %d %s", route, again.StatusCode, again.Body, resp.StatusCode, resp.Body)
				}
			}
		}
	})
}

// A query is either rejected or returns a page. Only three records are stored, so no page has
// more. The page's link leads to the next page.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "limit=1", "limit=200", "limit=0", "limit=+1", "limit=１", "limit=1&limit=2", "type=person", "type=%00", "type=%ff", "type=",
		"entity_id=ada&order=asc", "order=up", "from=2026-01-02T00:00:00Z&to=2026-01-03T00:00:00%2B01:00", "from=0000-01-01T00:00:00Z",
		"to=9999-12-31T23:59:59.999Z", "from=x", "cursor=", "cursor=abc", "%zz", "a;b", "&&", "=", "limit", "cursor=%00", "limit=%31",
		"updated_since=2026-01-02T00:00:00Z", "updated_since=2026-01-02T00:00:00Z&order=desc&include_deleted=true&limit=1", "updated_since=x&type=person",
		"created_since=2026-01-02T00:00:00Z&order=desc&limit=2", "created_since=2026-01-02T00:00:00Z&from=2026-01-02T00:00:00Z",
	} {
		f.Add(query)
	}
	a := newFuzzed(f)
	for _, id := range []string{"a", "b", "c"} {
		a.post(f, "create-entity", []byte(`{"id":"`+id+`","type":"person"}`))
		a.post(f, "create-event", []byte(`{"id":"`+id+`","name":"n","entity_id":"ada"}`))
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := url.Parse("/?" + query); err != nil {
			t.Skip("a request with this query cannot be read:", err)
		}
		for _, noun := range []string{"entity", "event"} {
			resp := a.get(t, "list-"+noun, "/"+noun+"?"+query)
			checkResponse(t, resp)
			if resp.StatusCode != 200 {
				if resp.StatusCode != 400 && !strings.Contains(resp.Body, `"code":"invalid_combination"`) {
					t.Errorf("status %d: %s", resp.StatusCode, resp.Body)
				}
				continue
			}
			var page struct {
				Data       []struct{ ID string }
				NextCursor *string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || len(page.Data) > 3 {
				t.Fatalf("%v: %s", err, resp.Body)
			}
			if page.NextCursor == nil {
				continue
			}
			// The next page must not contain the last record of this one.
			next, _, _ := strings.Cut(strings.TrimPrefix(resp.Headers["Link"], "<"), ">")
			if resp := a.get(t, "list-"+noun, next); resp.StatusCode != 200 || strings.Contains(resp.Body, `"id":"`+page.Data[len(page.Data)-1].ID+`"`) {
				t.Errorf("%s: %d %s", next, resp.StatusCode, resp.Body)
			}
		}
	})
}

// A list accepts only cursors that it could have returned itself.
func FuzzCursor(f *testing.F) {
	a := newFuzzed(f)
	given := make(map[string]bool)
	for _, id := range []string{"a", "b", "c"} {
		a.post(f, "create-entity", []byte(`{"id":"`+id+`"}`))
		a.post(f, "create-event", []byte(`{"id":"`+id+`","name":"n","occurred_at":"2026-01-02T15:04:05Z"}`))
	}
	for _, target := range []string{"/entity?limit=1", "/entity?limit=2", "/event?limit=1", "/event?limit=2", "/event?limit=1&order=asc"} {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(a.get(f, routeOf(target), target).Body), &page); err != nil {
			f.Fatal(err)
		}
		given[page.NextCursor] = true
		f.Add(page.NextCursor)
		b, err := base64.RawURLEncoding.DecodeString(page.NextCursor)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(base64.RawURLEncoding.EncodeToString(bytes.Replace(b, []byte(`"c":"`), []byte(`"c":"z`), 1)))
		f.Add(base64.RawURLEncoding.EncodeToString(append(b, ' ')))
		f.Add(base64.RawURLEncoding.EncodeToString(bytes.Replace(b, []byte("{"), []byte(`{"x":1,`), 1)))
	}
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		for _, noun := range []string{"entity", "event"} {
			resp := a.get(t, "list-"+noun, "/"+noun+"?cursor="+url.QueryEscape(text))
			checkResponse(t, resp)
			if resp.StatusCode != 200 || given[text] {
				continue
			}
			// An accepted cursor belongs to this list, and can be encoded in only one way.
			b, err := base64.RawURLEncoding.Strict().DecodeString(text)
			var c struct {
				Route     string `json:"r"`
				Workspace string `json:"w"`
				Filters   string `json:"f"`
				Store     string `json:"c"`
			}
			if err != nil || json.Unmarshal(b, &c) != nil || c.Route != "list-"+noun || c.Workspace != "default" || c.Filters != "" || c.Store == "" {
				t.Errorf("%s takes the cursor %q", noun, b)
			}
		}
	})
}

// The routes accept exactly the ids that record.CheckID accepts.
func FuzzID(f *testing.F) {
	for _, id := range []string{"a", "A-Z.a_z:09", "", " ", "a b", "a/b", "..", ".", "%41", "%2F", "\x00", "é", "\xff", "a#b", "a?b", "{id}", strings.Repeat("a", 128), strings.Repeat("a", 129)} {
		f.Add(id)
	}
	a := newFuzzed(f)
	f.Fuzz(func(t *testing.T, id string) {
		valid := record.CheckID(id) == nil
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		for noun, body := range map[string]string{"entity": `{"id":` + string(quoted) + `}`, "event": `{"id":` + string(quoted) + `,"name":"n"}`} {
			created := a.post(t, "create-"+noun, []byte(body))
			checkResponse(t, created)
			ev := lambdatest.Event("GET", "/"+noun+"/"+url.PathEscape(id), "192.0.2.1", "")
			got := a.invoke(t, "get-"+noun, ev)
			checkResponse(t, got)
			switch {
			case valid && (created.StatusCode > 201 || got.StatusCode != 200 || got.Body != created.Body):
				t.Errorf("%q: created %d %s, got %d %s", id, created.StatusCode, created.Body, got.StatusCode, got.Body)
			case !valid && (created.StatusCode != 422 || got.StatusCode != 400 && got.StatusCode != 404):
				t.Errorf("%q: created %d %s, got %d %s", id, created.StatusCode, created.Body, got.StatusCode, got.Body)
			}
		}
	})
}
