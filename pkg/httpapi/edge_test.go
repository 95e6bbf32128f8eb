package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// newRoomyAPI returns an API without limits.
func newRoomyAPI(t testing.TB) service {
	t.Helper()
	a := newAPI(t)
	var err error
	a.limiter, err = ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Action: ratelimit.ActionUnlimited}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a service) post(t testing.TB, route, body string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event("POST", "/"+strings.ReplaceAll(route, "-", "_"), "192.0.2.1", body)
	ev.Headers["content-type"] = "application/json"
	return a.invoke(t, route, ev)
}

func (a service) get(t testing.TB, route, target string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	return a.invoke(t, route, lambdatest.Event("GET", target, "192.0.2.1", ""))
}

func TestContentTypes(t *testing.T) {
	a := newRoomyAPI(t)
	for header, ok := range map[string]bool{
		"application/json":                     true,
		"Application/JSON":                     true,
		"application/json; charset=utf-8":      true,
		"application/json;charset=\"UTF-8\"":   true,
		"application/json; charset=":           false,
		"application/json; charset=utf-16":     false,
		"application/json; charset=iso-8859-1": false,
		"application/json; charset=utf-8; v=1": true,
		"application/merge-patch+json":         false,
		"application/problem+json":             false,
		"text/json":                            false,
		"text/plain":                           false,
		"application/x-www-form-urlencoded":    false,
		"application/json, application/json":   false,
		"json":                                 false,
		"":                                     false,
	} {
		ev := lambdatest.Event("POST", "/create_entity", "192.0.2.1", `{}`)
		ev.Headers["content-type"] = header
		if header == "" {
			delete(ev.Headers, "content-type")
		}
		want := 415
		if ok {
			want = 201
		}
		if resp := a.invoke(t, "create-entity", ev); resp.StatusCode != want {
			t.Errorf("%q: %d %s, want %d", header, resp.StatusCode, resp.Body, want)
		}
	}
}

func TestAttributesComeBackAsTheyWereSent(t *testing.T) {
	a := newRoomyAPI(t)
	for i, attributes := range []string{
		`{"n":9007199254740993,"m":12345678901234567890.10,"e":1E+400,"z":-0,"f":1.0}`,
		`{"":"","nul":"\u0000","quote":"\"\\","slash":"\/","pair":"\ud83d\ude00","html":"<&>"}`,
		"{\"raw\":\"é😀\u2028\u2029\ufeff\ufffe\x7f\"}",
		`{"b":1,"a":[null,true,{"c":[]}],"A":2}`,
		`{"null":null}`,
		strings.Repeat(`{"a":`, 31) + `{}` + strings.Repeat(`}`, 31),
	} {
		id := fmt.Sprintf("r-%d", i)
		member := `"attributes":` + attributes
		for route, body := range map[string]string{
			"create-entity": fmt.Sprintf(`{"id":%q, "attributes" : %s }`, id, attributes),
			"create-event":  fmt.Sprintf(`{"id":%q,"name":"n","attributes":%s}`, id, attributes),
		} {
			if resp := a.post(t, route, body); resp.StatusCode != 201 || !strings.Contains(resp.Body, member) {
				t.Errorf("%s: %d %s, want %s", route, resp.StatusCode, resp.Body, member)
			}
			if resp := a.post(t, route, body); resp.StatusCode != 200 || !strings.Contains(resp.Body, member) {
				t.Errorf("%s again: %d %s, want %s", route, resp.StatusCode, resp.Body, member)
			}
		}
		for _, noun := range []string{"entity", "event"} {
			ev := lambdatest.Event("GET", "/"+noun+"/"+id, "192.0.2.1", "")
			for name, resp := range map[string]events.APIGatewayV2HTTPResponse{
				"get":  a.invoke(t, "get-"+noun, ev),
				"list": a.get(t, "list-"+noun, "/"+noun),
			} {
				if resp.StatusCode != 200 || !strings.Contains(resp.Body, member) {
					t.Errorf("%s %s: %d %s, want %s", name, noun, resp.StatusCode, resp.Body, member)
				}
			}
		}
		if resp := a.post(t, "update-entity", fmt.Sprintf(`{"id":%q,"attributes":{"patched":1.50}}`, id)); resp.StatusCode != 200 ||
			!strings.Contains(resp.Body, strings.TrimSuffix(member, "}")) || !strings.Contains(resp.Body, `"patched":1.50}`) {
			t.Errorf("update: %d %s, want %s", resp.StatusCode, resp.Body, member)
		}
	}
}

func TestBodies(t *testing.T) {
	a := newRoomyAPI(t)
	a.post(t, "create-entity", `{"id":"ada"}`)
	wide := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":1,`, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	for _, tt := range []struct {
		route, body string
		status      int
		says        string
	}{
		{"create-event", ``, 400, "it is empty"},
		{"create-event", ` `, 400, "it is empty"},
		{"create-event", "\ufeff{\"name\":\"n\"}", 400, "well-formed"},
		{"create-event", `[1]`, 400, "object"},
		{"create-entity", `{"attributes":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, 400, "depth"},
		{"create-event", `{"name":"n"}{}`, 400, "more text follows the object"},
		{"create-event", `{"name":"n","attributes":{"a":1,"a":1}}`, 400, "duplicate"},
		{"create-event", `{"name":"n","Name":"n"}`, 422, "Name is not a field"},
		{"create-event", `{"name":"\udc00"}`, 400, "surrogate"},
		{"create-event", `{"name":"a\u0000b"}`, 201, ""},
		{"create-event", `{"name":""}`, 422, "name is required"},
		{"create-event", `{"name":"n","entity_id":null,"id":null,"attributes":null,"occurred_at":null}`, 201, `"entity_id":null`},
		{"create-event", `{"name":"` + strings.Repeat("😀", 128) + `"}`, 201, ""},
		{"create-event", `{"name":"` + strings.Repeat("😀", 129) + `"}`, 422, "1 to 128 characters"},
		{"create-event", `{"name":"n","attributes":` + deep(32) + `}`, 201, ""},
		{"create-event", `{"name":"n","attributes":` + deep(33) + `}`, 422, "deeper than 32"},
		{"create-entity", `{` + wide(20_000) + `}`, 422, "is not a field"},
		{"create-entity", `{"` + strings.Repeat("x", 100_000) + `":1}`, 422, "is not a field"},
		{"update-entity", `{"id":"ada"}`, 422, "attributes is required"},
		{"update-entity", `{"id":"ada","attributes":null}`, 422, "attributes is required"},
		{"update-entity", `{"attributes":{}}`, 422, "id is required"},
		{"update-entity", `{"id":"ada","attributes":[]}`, 422, "must be a JSON object"},
		{"update-entity", `{"id":"ada","type":"person","attributes":{}}`, 422, "type is not a field"},
		{"update-entity", `{"id":"a b","attributes":{}}`, 422, "id must be"},
		{"update-entity", `{"id":"bob","attributes":{}}`, 404, "bob"},
		{"update-entity", `{"id":"ada","attributes":{}}`, 200, `"attributes":{}`},
		{"create-entity", `{"id":"ada","type":"robot"}`, 409, "conflict"},
		{"create-event", `{"id":"e","name":"n"}`, 201, ""},
		{"create-event", `{"id":"e","name":"m"}`, 409, "conflict"},
		{"delete-entity", `{}`, 422, "id is required"},
		{"delete-entity", `{"id":""}`, 422, "id is required"},
		{"delete-entity", `{"id":"a/b"}`, 422, "id must be"},
		{"delete-entity", `{"id":"bob"}`, 200, `"deleted":true`},
	} {
		resp := a.post(t, tt.route, tt.body)
		if resp.StatusCode != tt.status || !strings.Contains(resp.Body, tt.says) {
			t.Errorf("%s %.100s: %d %.300s, want %d with %q", tt.route, tt.body, resp.StatusCode, resp.Body, tt.status, tt.says)
		}
		if len(resp.Body) > 20_000 {
			t.Errorf("%s %.100s: the response has %d bytes", tt.route, tt.body, len(resp.Body))
		}
	}
	// API Gateway base64-encodes a body that is not UTF-8.
	ev := lambdatest.Event("POST", "/create_entity", "192.0.2.1", base64.StdEncoding.EncodeToString([]byte("{\"id\":\"\xff\"}")))
	ev.IsBase64Encoded = true
	if resp := a.invoke(t, "create-entity", ev); resp.StatusCode != 400 || !strings.Contains(resp.Body, "UTF-8") {
		t.Errorf("not UTF-8: %d %s", resp.StatusCode, resp.Body)
	}
}

// A problem may quote invalid UTF-8 from the request.
func TestProblemsAreJSONWhateverTheyShow(t *testing.T) {
	a := newRoomyAPI(t)
	bad := lambdatest.Event("POST", "/create_entity", "192.0.2.1", "{}")
	bad.Headers["content-type"] = "text/\xff"
	coded := lambdatest.Event("POST", "/create_entity", "192.0.2.1", "{}")
	coded.Headers["content-encoding"] = "\xff"
	for name, resp := range map[string]events.APIGatewayV2HTTPResponse{
		"a parameter":      a.get(t, "list-entity", "/entity?%ff=1"),
		"a raw parameter":  a.get(t, "list-entity", "/entity?\xff=1"),
		"a path":           a.get(t, "not-found", "/nowhere/\xff"),
		"a content type":   a.invoke(t, "create-entity", bad),
		"a content coding": a.invoke(t, "create-entity", coded),
	} {
		if resp.StatusCode < 400 || resp.StatusCode >= 500 || !json.Valid([]byte(resp.Body)) || !utf8.ValidString(resp.Body) {
			t.Errorf("%s: %d %q", name, resp.StatusCode, resp.Body)
		}
	}
}

func TestTheBodyLimitHoldsToTheByte(t *testing.T) {
	a := newRoomyAPI(t)
	const rest = len(`{"attributes":{"a":""}}`)
	for size, want := range map[int]int{256 << 10: 201, 256<<10 + 1: 413} {
		body := `{"attributes":{"a":"` + strings.Repeat("x", size-rest) + `"}}`
		if resp := a.post(t, "create-entity", body); resp.StatusCode != want {
			t.Errorf("%d bytes: %d %.200s, want %d", size, resp.StatusCode, resp.Body, want)
		}
	}
}

func TestFilters(t *testing.T) {
	a := newRoomyAPI(t)
	for i, typ := range []string{"person", "a b&c=d", "person"} {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"%d","type":%q}`, i, typ))
	}
	for i, entityID := range []string{"ada", "bob", "ada", "ada"} {
		a.post(t, "create-event", fmt.Sprintf(`{"id":"%d","name":"n","entity_id":%q,"occurred_at":"2026-01-0%dT00:00:00Z"}`, i, entityID, i+1))
	}
	for _, tt := range []struct {
		target string
		status int
		want   string // ids on all pages, or part of the problem's detail
	}{
		{"/entity?type=person", 200, "0 2"},
		{"/entity?type=a+b%26c%3Dd", 200, "1"},
		{"/entity?type=Person", 200, ""},
		{"/entity?type=", 400, "type must be"},
		{"/entity?type=" + strings.Repeat("x", 129), 400, "type must be"},
		{"/entity?type=%ff", 400, "type must be"},
		{"/entity?type=a&type=b", 400, "more than once"},
		{"/entity?order=asc", 400, "order needs updated_since"},
		{"/event", 200, "3 2 1 0"},
		{"/event?order=desc", 200, "3 2 1 0"},
		{"/event?order=asc", 200, "0 1 2 3"},
		{"/event?order=ASC", 400, "order must be"},
		{"/event?order=", 400, "order must be"},
		{"/event?entity_id=ada", 200, "3 2 0"},
		{"/event?entity_id=ada&order=asc&from=2026-01-02T00:00:00Z", 200, "2 3"},
		{"/event?from=2026-01-02T00:00:00Z&to=2026-01-04T00:00:00Z", 200, "2 1"},
		{"/event?to=2026-01-02T01:00:00%2B01:00", 200, "0"},
		{"/event?to=2026-01-02T01:00:00+01:00", 400, "write + as %2B"},
		{"/event?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", 200, ""},
		{"/event?from=2026-01-03T00:00:00Z&to=2026-01-02T00:00:00Z", 400, "from must not be later than to"},
		{"/event?from=yesterday", 400, "from is not an RFC 3339"},
		{"/event?from=", 400, "from is not an RFC 3339"},
		{"/event?entity_id=", 400, "entity_id must be"},
		{"/event?entity_id=a%20b", 400, "entity_id must be"},
		{"/event?type=n", 400, "type is not a parameter"},
		{"/entity?include_deleted=true", 400, "include_deleted needs updated_since"},
		{"/event?include_deleted=true", 400, "include_deleted needs created_since"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=desc", 200, "2 1 0"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=desc&type=person&include_deleted=true", 200, "2 1 0"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=up", 400, "order must be"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&include_deleted=yes", 400, "include_deleted must be"},
		{"/entity?updated_since=", 400, "updated_since is not an RFC 3339"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&from=2000-01-01T00:00:00Z", 400, "from is not a parameter"},
		{"/event?created_since=2000-01-01T00:00:00Z&order=desc", 200, "3 2 1 0"},
		{"/event?created_since=2000-01-01T00:00:00Z&order=desc&entity_id=ada&include_deleted=true", 200, "3 2 1 0"},
		{"/event?created_since=2000-01-01T00:00:00Z&from=2000-01-01T00:00:00Z", 422, "from cannot be combined with created_since"},
		{"/event?created_since=2000-01-01T00:00:00Z&to=2000-01-01T00:00:00Z", 422, "to cannot be combined with created_since"},
		{"/event?created_since=yesterday&to=2000-01-01T00:00:00Z", 400, "created_since is not an RFC 3339"},
	} {
		for _, limit := range []string{"1", "2", "200"} {
			target, ids := tt.target, []string{}
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			target += separator + "limit=" + limit
			for target != "" {
				resp := a.get(t, "list-"+strings.Trim(target[:strings.Index(target, "?")], "/"), target)
				if resp.StatusCode != tt.status || tt.status != 200 && !strings.Contains(resp.Body, tt.want) {
					t.Fatalf("%s: %d %s, want %d with %s", target, resp.StatusCode, resp.Body, tt.status, tt.want)
				}
				var page struct{ Data []struct{ ID string } }
				if err := json.Unmarshal([]byte(resp.Body), &page); err != nil {
					t.Fatal(err)
				}
				for _, d := range page.Data {
					ids = append(ids, d.ID)
				}
				target, _, _ = strings.Cut(strings.TrimPrefix(resp.Headers["Link"], "<"), ">")
			}
			if got := strings.Join(ids, " "); tt.status == 200 && got != tt.want {
				t.Errorf("%s by %s: %s, want %s", tt.target, limit, got, tt.want)
			}
		}
	}
}

func TestInvalidParameters(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct{ route, target, want string }{
		{"list-export-job", "/export_job?type=t", "type is not a parameter of this route; its parameters are limit, cursor"},
		{"get-entity", "/entity/ada?limit=1", "limit is not a parameter of this route, which has no parameters"},
		{"health", "/health?limit=1", "limit is not a parameter of this route, which has no parameters"},
		{"list-entity", "/entity?limit=0", "limit must be a whole number from 1 to 200"},
		{"list-entity", "/entity?limit=201", "limit must be a whole number from 1 to 200"},
		{"list-event", "/event?limit=-1", "limit must be"},
		{"list-event", "/event?limit=x", "limit must be"},
		{"list-event", "/event?limit=", "limit must be"},
		{"list-entity", "/entity?limit=%zz", "cannot be accepted: the query string cannot be read: percent-encode"},
		{"list-event", "/event?cursor=", "cursor is not a cursor"},
		{"list-event", "/event?b=1&a=1", "a is not a parameter of this route; its parameters are limit, cursor, entity_id, name, from, to, order, created_since, include_deleted; b is not a parameter of this route\""},
		{"list-event", "/event?limit=x" + strings.Repeat("&", 31), "limit must be"},
		{"list-event", "/event?limit=x" + strings.Repeat("&", 32), "the query has more than 32 parameters"},
		{"health", "/health?" + strings.Repeat("&", 32), "the query has more than 32 parameters"},
		{"list-entity", "/entity?type=t&attributes.a=1&attributes.b=1&attributes.c=1&attributes.d=1", "is not indexed"},
		{"list-entity", "/entity?type=t&attributes.a=1&attributes.b=1&attributes.c=1&attributes.d=1&attributes.e=1", "a query has at most 4 conditions"},
		{"list-event", "/event?%00" + strings.Repeat("a", 100) + "=1", "\ufffd" + strings.Repeat("a", 63) + "… is not a parameter"},
	} {
		if resp := a.get(t, tt.route, tt.target); resp.StatusCode != 400 || !strings.Contains(resp.Body, tt.want) {
			t.Errorf("%s: %d %s, want %s", tt.target, resp.StatusCode, resp.Body, tt.want)
		}
	}
}

func TestAProblemShortensWhatTheClientSent(t *testing.T) {
	a := newAPI(t)
	long := strings.Repeat("a", 5000)
	for route, ev := range map[string]events.APIGatewayV2HTTPRequest{
		"not-found": lambdatest.Event("GET", "/"+long, "192.0.2.1", ""), "list-entity": lambdatest.Event("PURGE", "/entity/"+long, "192.0.2.1", ""),
		"create-entity": lambdatest.Event("POST", "/create_entity", "192.0.2.1", `{"`+long+`":1}`), "create-event": lambdatest.Event("POST", "/create_event", "192.0.2.1", `{"name":"`+long+`"}`),
	} {
		if resp := a.invoke(t, route, ev); resp.StatusCode < 400 || strings.Contains(resp.Body, long[:100]) || len(resp.Body) > 600 {
			t.Errorf("%s: %d %s", route, resp.StatusCode, resp.Body)
		}
	}
}

// The results of a batch keep their codes, and the first ones what is wrong.
func TestALargeProblemOfABatchSaysLess(t *testing.T) {
	a := newAPI(t)
	element := `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0}`
	for name, body := range map[string]string{"all": strings.Repeat(element+",", 99) + element, "most": strings.Repeat(element+",", 99) + `{"name":"n"}`} {
		resp, o := a.batch(t, `{"events":[`+body+`]}`)
		if len(resp.Body) > 8<<10+100*300 || len(o.Results) != 100 {
			t.Fatalf("%s: %d, %d bytes, %d results", name, resp.StatusCode, len(resp.Body), len(o.Results))
		}
		first, last := o.Results[0].Problem, o.Results[98].Problem
		if len(first.Errors) != 10 || last.Code != "invalid_body" || len(last.Errors) != 0 || !strings.HasPrefix(last.Detail, "the record has fields that cannot be accepted: a is not a field here; the f…") {
			t.Errorf("%s: %+v\n%+v", name, first, last)
		}
	}
}

// Clients written for other APIs may try plural paths, and methods other than POST.
func TestAWrongRouteNamesTheRightOne(t *testing.T) {
	a := newRoomyAPI(t)
	for _, tt := range []struct {
		method, path string
		status       int
		detail       string
	}{
		{"DELETE", "/entity/ada", 405, "/entity/ada does not support the method DELETE; use GET or HEAD, or POST /delete_entity"},
		{"PATCH", "/entity/ada", 405, "/entity/ada does not support the method PATCH; use GET or HEAD, or POST /update_entity"},
		{"POST", "/event", 405, "/event does not support the method POST; use GET or HEAD, or POST /create_event"},
		{"PUT", "/usage", 405, "/usage does not support the method PUT; use GET or HEAD"},
		{"GET", "/entities", 404, "there is no route GET /entities; use /entity"},
		{"GET", "/entities/", 404, "there is no route GET /entities/; use /entity"},
		{"GET", "/events/e-1", 404, "there is no route GET /events/e-1; use /event/e-1"},
		{"POST", "/entities", 404, "there is no route POST /entities; use POST /create_entity"},
		{"DELETE", "/entities/ada", 404, "there is no route DELETE /entities/ada; use POST /delete_entity"},
		{"GET", "/nowhere", 404, "there is no route GET /nowhere; check the path"},
	} {
		resp := a.invoke(t, "not-found", lambdatest.Event(tt.method, tt.path, "192.0.2.1", ""))
		if resp.StatusCode != tt.status || !strings.Contains(resp.Body, fmt.Sprintf(`"detail":%q`, tt.detail)) {
			t.Errorf("%s %s: %d %s, want %s", tt.method, tt.path, resp.StatusCode, resp.Body, tt.detail)
		}
	}
}

// Ignoring the query could do harm: the client may have asked for a dry run, for example.
func TestARequestWithABodyHasNoParameters(t *testing.T) {
	a := newRoomyAPI(t)
	for _, r := range httpapi.Routes() {
		if r.Method != http.MethodPost && r.Method != http.MethodDelete {
			continue
		}
		handler, err := httpapi.NewFunction(r.Name, a.limiter, untouchable, options)
		if err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]string{
			"dry_run=true": "dry_run is not a parameter of this route, which has no parameters",
			"id=a&id=b":    "id is not a parameter of this route",
			"%zz":          "percent-encode",
		} {
			ev := lambdatest.Event(r.Method, r.Path+"?"+query, "192.0.2.1", `{"name":"n"}`)
			resp := serve(t, handler, ev)
			checkDescribed(t, ev, resp)
			if resp.StatusCode != 400 || code(t, resp) != "invalid_parameter" || !strings.Contains(resp.Body, want) {
				t.Errorf("%s %s?%s: %d %s, want %s", r.Method, r.Path, query, resp.StatusCode, resp.Body, want)
			}
		}
	}
}

// A list stays the same however the query spells its order and filters.
func TestACursorIsValidOnlyForItsList(t *testing.T) {
	a := newRoomyAPI(t)
	for i := range 3 {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"%d","type":"t"}`, i))
		a.post(t, "create-event", fmt.Sprintf(`{"id":"%d","name":"n","entity_id":"ada"}`, i))
	}
	// All URLs in a group denote the same list.
	lists := [][]string{
		{"/entity?"},
		{"/entity?type=t", "/entity?type=%74"},
		{"/event?", "/event?order=desc"},
		{"/event?order=asc"},
		{"/event?entity_id=ada"},
		{"/event?entity_id=ada&order=asc", "/event?order=asc&entity_id=ada"},
		{"/event?from=2000-01-01T00:00:00Z", "/event?from=2000-01-01T00:00:00.000%2B00:00"},
		{"/event?to=2100-01-01T00:00:00Z"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=desc", "/entity?order=desc&updated_since=2000-01-01T01:00:00%2B01:00&include_deleted=false"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=desc&include_deleted=true"},
		{"/entity?updated_since=2000-01-01T00:00:00Z&order=desc&type=t&include_deleted=true"},
		{"/event?created_since=2000-01-01T00:00:00Z&order=desc"},
		{"/event?created_since=2000-01-01T00:00:00Z&order=desc&entity_id=ada&include_deleted=true"},
	}
	for from, spellings := range lists {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		resp := a.get(t, routeOf(spellings[0]), spellings[0]+"&limit=1")
		if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || page.NextCursor == "" {
			t.Fatalf("%s: %v, %s", spellings[0], err, resp.Body)
		}
		for to, targets := range lists {
			want := 400
			if from == to {
				want = 200
			}
			for _, target := range targets {
				resp := a.get(t, routeOf(target), target+"&limit=2&cursor="+page.NextCursor)
				if resp.StatusCode != want || want == 400 && !strings.Contains(resp.Body, "is not a cursor of this list") {
					t.Errorf("the cursor of %s on %s: %d %s", spellings[0], target, resp.StatusCode, resp.Body)
				}
			}
		}
	}
}

func routeOf(target string) string {
	return "list-" + strings.Trim(target[:strings.Index(target, "?")], "/")
}
