package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"go.yaml.in/yaml/v3"

	"sluice"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

type keyStore struct {
	mu    sync.Mutex
	keys  map[string]access.Key
	reads int
	err   error // returned by every read
}

func (s *keyStore) Get(_ context.Context, id string) (access.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	k, ok := s.keys[id]
	if !ok && s.err == nil {
		return access.Key{}, access.ErrNotFound
	}
	return k, s.err
}

type guarded struct {
	service
	keys *keyStore
	opts httpapi.Options
	log  *bytes.Buffer
}

func newGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{service: newAPI(t), keys: &keyStore{keys: make(map[string]access.Key)}, log: new(bytes.Buffer)}
	authenticator, err := access.NewAuthenticator(g.keys, now)
	if err != nil {
		t.Fatal(err)
	}
	g.opts = httpapi.Options{
		Config: httpapi.Config{Service: "sluice-test", AdminRoutes: true}, Access: authenticator, Now: now, RequestID: requestID,
		Logger: slog.New(slog.NewJSONHandler(g.log, nil)),
	}
	t.Cleanup(func() { secrettest.Check(t, "a handler", g.log.String()) })
	return g
}

// key stores a new API key and returns the Authorization header for it.
func (g *guarded) key(t testing.TB, workspace string, scopes ...access.Scope) string {
	t.Helper()
	return g.keyLike(t, access.Key{Workspace: workspace, Scopes: scopes}, func(*access.Key) {})
}

func (g *guarded) keyLike(t testing.TB, k access.Key, change func(*access.Key)) string {
	t.Helper()
	k, token := secrettest.New(t, k, now().Add(-time.Hour))
	change(&k)
	g.keys.keys[k.ID] = k
	return "Bearer " + token.Reveal()
}

// wrong returns key with a different last character, which is part of the secret.
func wrong(key string) string {
	last := "2"
	if strings.HasSuffix(key, last) {
		last = "3"
	}
	return key[:len(key)-1] + last
}

func (g *guarded) invoke(t *testing.T, route, authorization string, ev events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	delete(ev.Headers, "authorization")
	if authorization != "" {
		ev.Headers["authorization"] = authorization
	}
	resp := serve(t, newFunction(t, route, g.service, g.opts), ev)
	checkDescribed(t, ev, resp)
	return resp
}

// untouchable panics on every read and write, so a route that uses a store responds with 500.
var untouchable = httpapi.Stores{Entities: struct{ entity.Store }{}, Finder: struct{ index.Finder }{}, Indexes: struct{ index.Declarations }{}, Events: struct{ event.Store }{}, Erasures: struct{ erasurejob.Requester }{}, ErasureJobs: struct{ job.Store }{}, ExportJobs: struct{ job.Store }{}, ExportLinks: struct{ exportjob.Links }{}, ExportDeleter: struct{ exportjob.Deleter }{}, Usage: struct{ ratelimit.UsageStore }{}, Keys: struct{ access.Manager }{}, LimitRows: struct{ ratelimit.RowManager }{}, Declarations: struct{ index.Store }{}, Audit: struct{ audit.Store }{}, Dashboard: map[string]func() []byte{}, OpenAPI: sluice.OpenAPI}

// state is the RateLimit header of each class after one request that found no record.
var state = map[ratelimit.Class]string{
	ratelimit.Export:  `"records";r=200;t=1, "requests";r=199;t=1`,
	ratelimit.Import:  `"imports";r=199;t=1, "requests";r=199;t=1`,
	ratelimit.General: `"requests";r=199;t=1`,
}

func code(t *testing.T, resp events.APIGatewayV2HTTPResponse) string {
	t.Helper()
	var p struct{ Code string }
	if resp.StatusCode < 400 {
		return ""
	}
	if err := json.Unmarshal([]byte(resp.Body), &p); err != nil {
		t.Fatal(err)
	}
	return p.Code
}

// A rejected request counts toward the rate limits, but reads and writes nothing.
func TestEveryRouteAcceptsOnlyTheRightKey(t *testing.T) {
	const invalid = `Bearer realm="sluice", error="invalid_token"`
	for _, route := range httpapi.Routes() {
		others := slices.DeleteFunc(access.Scopes(), func(s access.Scope) bool { return slices.Contains(route.Scopes(), s) })
		right := []access.Scope{route.Scope}
		if route.Scope == access.Public || route.Admin() {
			right = access.Scopes()
		}
		like := access.Key{Workspace: "default", Scopes: right}
		without, malformed := newGuarded(t).invoke(t, route.Name, "", sample(t, route.Name)), newGuarded(t).invoke(t, route.Name, "Bearer x", sample(t, route.Name))
		for _, tt := range []struct {
			name      string
			key       func(t *testing.T, g *guarded) string
			status    int
			code      string
			challenge string
			logged    string
		}{
			{"no key", func(*testing.T, *guarded) string { return "" }, 401, "missing_key", `Bearer realm="sluice"`, "no_key"},
			{"malformed", func(t *testing.T, g *guarded) string { return g.keyLike(t, like, func(*access.Key) {}) + "x" }, 401, "invalid_key", invalid, "malformed"},
			{"another scheme", func(t *testing.T, g *guarded) string {
				return strings.Replace(g.keyLike(t, like, func(*access.Key) {}), "Bearer", "Basic", 1)
			}, 401, "invalid_key", invalid, "malformed"},
			{"two keys", func(t *testing.T, g *guarded) string {
				return g.keyLike(t, like, func(*access.Key) {}) + "," + g.keyLike(t, like, func(*access.Key) {})
			}, 401, "invalid_key", invalid, "malformed"},
			{"unknown", func(t *testing.T, _ *guarded) string { return newGuarded(t).keyLike(t, like, func(*access.Key) {}) }, 401, "invalid_key", invalid, "unknown"},
			{"wrong secret", func(t *testing.T, g *guarded) string { return wrong(g.keyLike(t, like, func(*access.Key) {})) }, 401, "invalid_key", invalid, "wrong_secret"},
			{"revoked", func(t *testing.T, g *guarded) string {
				return g.keyLike(t, like, func(k *access.Key) { k.RevokedAt = now().Add(-time.Millisecond) })
			}, 401, "invalid_key", invalid, "revoked"},
			{"expired", func(t *testing.T, g *guarded) string {
				return g.keyLike(t, like, func(k *access.Key) { k.ExpiresAt = now() })
			}, 401, "invalid_key", invalid, "expired"},
			{"wrong scope", func(t *testing.T, g *guarded) string { return g.key(t, "default", others...) }, 403, "missing_scope",
				fmt.Sprintf(`Bearer realm="sluice", error="insufficient_scope", scope="%s"`, route.Scope), "missing_scope"},
		} {
			t.Run(route.Name+"/"+tt.name, func(t *testing.T) {
				g := newGuarded(t)
				key := tt.key(t, g)
				if route.Scope == access.Public {
					with := g.invoke(t, route.Name, key, sample(t, route.Name))
					if with.StatusCode == 401 || with.StatusCode != without.StatusCode || with.Body != without.Body || g.keys.reads != 0 {
						t.Errorf("a public route responds with %d %s, without a key %d %s, and read %d keys", with.StatusCode, with.Body, without.StatusCode, without.Body, g.keys.reads)
					}
					return
				}
				g.stores = untouchable
				resp := g.invoke(t, route.Name, key, sample(t, route.Name))
				if resp.StatusCode != tt.status || code(t, resp) != tt.code || resp.Headers["Www-Authenticate"] != tt.challenge {
					t.Errorf("%d %s, challenge %s; want %d %s, %s", resp.StatusCode, resp.Body, resp.Headers["Www-Authenticate"], tt.status, tt.code, tt.challenge)
				}
				if resp.Headers["RateLimit"] != state[route.Class] || resp.Headers["X-RateLimit-Remaining"] != "199" {
					t.Errorf("headers %v", resp.Headers)
				}
				var l struct {
					Level, KeyID, Workspace, Refused string
					AccessRefusals                   int
				}
				if err := json.Unmarshal(bytes.NewBufferString(strings.NewReplacer(`"key_id"`, `"KeyID"`, `"access_refused"`, `"Refused"`).Replace(g.log.String())).Bytes(), &l); err != nil {
					t.Fatal(err)
				}
				wantID := tt.logged != "no_key" && tt.logged != "malformed"
				if l.Level != "WARN" || l.Refused != tt.logged || l.Workspace != "" || l.AccessRefusals != 1 || (l.KeyID != "") != wantID || wantID && !strings.Contains(key, "_"+l.KeyID+"_") {
					t.Errorf("the log says %s", g.log)
				}
				// The response must not reveal why the key is invalid.
				if tt.code == "invalid_key" && fmt.Sprint(resp) != fmt.Sprint(malformed) {
					t.Errorf("responses differ:\n%v\n%v", resp, malformed)
				}
			})
		}
		t.Run(route.Name+"/right", func(t *testing.T) {
			for _, scope := range route.Scopes()[1:] {
				g := newGuarded(t)
				if resp := g.invoke(t, route.Name, g.key(t, "default", scope), sample(t, route.Name)); resp.StatusCode != 200 {
					t.Errorf("with the scope %s: %v", scope, resp)
				}
			}
			g, off := newGuarded(t), newAPI(t)
			key := g.keyLike(t, access.Key{Workspace: "default", Scopes: right, ExpiresAt: now().Add(time.Millisecond)}, func(*access.Key) {})
			if route.Name == "create-api-key" { // a key that makes another must exist
				if err := g.stores.Keys.Create(t.Context(), g.keys.keys[strings.Split(key, "_")[1]]); err != nil {
					t.Fatal(err)
				}
			}
			got, want := g.invoke(t, route.Name, key, sample(t, route.Name)), off.invoke(t, route.Name, sample(t, route.Name))
			// Ignore what GET /usage says about the caller's key, and the dashboard about keys.
			for _, resp := range []*events.APIGatewayV2HTTPResponse{&got, &want} {
				body, _, isUsage := strings.Cut(resp.Body, `,"caller":`)
				resp.Body = strings.Replace(body, `data-keys="off"`, `data-keys="on"`, 1)
				if isUsage || route.Name == "dashboard" {
					delete(resp.Headers, "Content-Length")
					delete(resp.Headers, "Etag")
				}
			}
			if route.Name == "create-api-key" { // each response has another key
				got.Body, want.Body, got.Headers["Content-Length"] = "", "", want.Headers["Content-Length"]
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || got.StatusCode == 401 {
				t.Errorf("with a key: %v\nwith keys off: %v", got, want)
			}
			if id := strings.Split(key, "_")[1]; route.Scope != access.Public && (!strings.Contains(g.log.String(), `"key_id":"`+id+`"`) || !strings.Contains(g.log.String(), `"workspace":"default"`)) {
				t.Errorf("the log lacks the key id or the workspace: %s", g.log)
			}
		})
	}
}

// openapi.yaml says which route needs which scope (TestScopesAreDescribed).
func TestEveryScopeIsOfARoute(t *testing.T) {
	used := []access.Scope{access.Operator} // for the parameters of GET /usage; see TestUsageOfOthersNeedsTheScopeOperator
	for _, r := range httpapi.Routes() {
		if r.Scope != access.Public {
			used = append(used, r.Scope)
		}
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(access.Scopes(), used) {
		t.Errorf("the scopes of keys are %v, those of routes %v", access.Scopes(), used)
	}
}

// Without the scope "erase", a valid request to erase events gets 403 and deletes nothing; an
// invalid request gets 422.
func TestErasingNeedsAScopeOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		body, scopes string
		status       int
		code         string
	}{
		{`{"id":"ada"}`, "import", 200, ""},
		{`{"id":"ada","events":false}`, "import", 200, ""},
		{`{"id":"ada","events":true}`, "import", 403, "missing_scope"},
		{`{"id":"ada","events":true}`, "import export dashboard", 403, "missing_scope"},
		{`{"id":"ada","events":true}`, "erase", 403, "missing_scope"},
		{`{"id":"ada","events":true}`, "erase import", 202, ""},
		{`{"id":"ada","events":1}`, "import", 422, "invalid_body"},
	} {
		g := newGuarded(t)
		if tt.status >= 400 {
			g.stores = untouchable
		}
		var scopes []access.Scope
		for s := range strings.FieldsSeq(tt.scopes) {
			scopes = append(scopes, access.Scope(s))
		}
		resp := g.invoke(t, "delete-entity", g.key(t, "default", scopes...), lambdatest.Event("POST", "/delete_entity", "192.0.2.1", tt.body))
		if resp.StatusCode != tt.status || code(t, resp) != tt.code || resp.Headers["RateLimit"] != state[ratelimit.Import] {
			t.Errorf("%s with %s: %d %s %v", tt.body, tt.scopes, resp.StatusCode, resp.Body, resp.Headers)
		}
		lacking := `scope="erase"`
		if tt.scopes == "erase" {
			lacking = `scope="import"`
		}
		if tt.status == 403 && (!strings.HasSuffix(resp.Headers["Www-Authenticate"], lacking) || !strings.Contains(g.log.String(), `"access_refused":"missing_scope"`)) {
			t.Errorf("%s with %s: challenge %s, log %s", tt.body, tt.scopes, resp.Headers["Www-Authenticate"], g.log)
		}
	}
}

func TestWorkspacesAreApart(t *testing.T) {
	g := newGuarded(t)
	var err error
	if g.limiter, err = ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Action: ratelimit.ActionUnlimited}}); err != nil {
		t.Fatal(err)
	}
	post := func(key, route, body string) events.APIGatewayV2HTTPResponse {
		t.Helper()
		return g.invoke(t, route, key, lambdatest.Event("POST", "/"+strings.ReplaceAll(route, "-", "_"), "192.0.2.1", body))
	}
	get := func(key, route, target string) events.APIGatewayV2HTTPResponse {
		t.Helper()
		ev := lambdatest.Event("GET", target, "192.0.2.1", "")
		return g.invoke(t, route, key, ev)
	}
	want := func(resp events.APIGatewayV2HTTPResponse, status int, text string) {
		t.Helper()
		if resp.StatusCode != status || !strings.Contains(resp.Body, text) {
			t.Errorf("%d %s, want %d with %s", resp.StatusCode, resp.Body, status, text)
		}
	}
	ada, bob := g.key(t, "ada", access.Scopes()...), g.key(t, "bob", access.Scopes()...)
	for _, id := range []string{"1", "2"} {
		want(post(ada, "create-entity", `{"id":"`+id+`","type":"t","attributes":{"of":"ada"}}`), 201, "ada")
		want(post(ada, "create-event", `{"id":"`+id+`","name":"n","entity_id":"1","attributes":{"of":"ada"}}`), 201, "ada")
	}
	for _, id := range []string{"1", "2"} {
		want(post(ada, "create-export-job", `{"id":"`+id+`","resource":"entity","format":"csv"}`), 201, `"format":"csv"`)
	}
	for noun, shown := range map[string]string{"entity": `"of":"ada"`, "event": `"of":"ada"`, "export_job": `"format":"csv"`} {
		route := strings.ReplaceAll(noun, "_", "-")
		want(get(bob, "get-"+route, "/"+noun+"/1"), 404, "not_found")
		want(get(bob, "list-"+route, "/"+noun), 200, `"data":[]`)
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(get(ada, "list-"+route, "/"+noun+"?limit=1").Body), &page); err != nil || page.NextCursor == "" {
			t.Fatal(page, err)
		}
		want(get(ada, "list-"+route, "/"+noun+"?cursor="+page.NextCursor), 200, shown)
		want(get(bob, "list-"+route, "/"+noun+"?cursor="+page.NextCursor), 400, "is not a cursor of this list")
	}
	want(post(bob, "cancel-export-job", `{"id":"1"}`), 404, "not_found")
	want(post(bob, "create-export-job", `{"id":"1","resource":"event","format":"ndjson"}`), 201, "ndjson")
	want(get(ada, "get-export-job", "/export_job/1"), 200, `"status":"queued"`)
	want(get(ada, "get-export-job", "/export_job/1"), 200, "csv")
	want(get(bob, "list-entity", "/entity?type=t"), 200, `"data":[]`)
	want(get(bob, "list-event", "/event?entity_id=1"), 200, `"data":[]`)
	want(post(bob, "update-entity", `{"id":"1","attributes":{"of":"bob"}}`), 404, "not_found")
	want(post(bob, "delete-entity", `{"id":"1"}`), 200, "deleted")
	want(post(bob, "create-entity", `{"id":"1","type":"u","attributes":{"of":"bob"}}`), 201, "bob")
	want(post(bob, "create-event", `{"id":"1","name":"m","attributes":{"of":"bob"}}`), 201, "bob")
	want(post(bob, "create-events", `{"events":[{"id":"2","name":"m","attributes":{"of":"bob"}}]}`), 201, "bob")
	for _, id := range []string{"1", "2"} {
		want(get(ada, "get-entity", "/entity/"+id), 200, `"of":"ada"`)
		want(get(ada, "get-event", "/event/"+id), 200, `"of":"ada"`)
	}
	for _, target := range []string{"/entity", "/event"} {
		for key, not := range map[string]string{ada: `"of":"bob"`, bob: `"of":"ada"`} {
			if resp := get(key, "list-"+target[1:], target); resp.StatusCode != 200 || strings.Contains(resp.Body, not) {
				t.Errorf("%s: %s", target, resp.Body)
			}
		}
	}
}

// A page from another origin can make a browser send the cookie. Such a request must not change
// anything.
func TestTheSessionCookie(t *testing.T) {
	for _, tt := range []struct {
		name, route string
		header      map[string]string
		cookie      string // "key" (valid), "bad" (invalid), "empty", or "" for no cookie
		bearer      string // "key" (valid), "bad" (invalid), or "" for no header
		status      int
		code        string
	}{
		{"a cookie", "list-entity", nil, "key", "", 200, ""},
		{"a read from another site", "list-entity", map[string]string{"sec-fetch-site": "cross-site"}, "key", "", 200, ""},
		{"an invalid cookie", "list-entity", nil, "bad", "", 401, "invalid_key"},
		{"an empty cookie", "list-entity", nil, "empty", "", 401, "missing_key"},
		{"an invalid header and a valid cookie", "list-entity", nil, "key", "bad", 401, "invalid_key"},
		{"a valid header and an invalid cookie", "list-entity", nil, "bad", "key", 200, ""},
		{"a write without a browser's headers", "create-entity", nil, "key", "", 201, ""},
		{"a write from the same origin", "create-entity", map[string]string{"sec-fetch-site": "same-origin", "origin": "https://api.example.com"}, "key", "", 201, ""},
		{"a write that the user started directly", "create-entity", map[string]string{"sec-fetch-site": "none"}, "key", "", 201, ""},
		{"a write from another site", "create-entity", map[string]string{"sec-fetch-site": "cross-site", "origin": "https://example.net"}, "key", "", 403, "cross_origin_request"},
		{"a write from a neighboring domain", "create-entity", map[string]string{"sec-fetch-site": "same-site", "origin": "https://www.example.com"}, "key", "", 403, "cross_origin_request"},
		{"a write from an old browser, same origin", "create-entity", map[string]string{"origin": "https://api.example.com"}, "key", "", 201, ""},
		{"a write from an old browser, another origin", "create-entity", map[string]string{"origin": "https://example.net"}, "key", "", 403, "cross_origin_request"},
		{"a write from a sandboxed page", "create-entity", map[string]string{"origin": "null"}, "key", "", 403, "cross_origin_request"},
		{"a write from another site with an invalid cookie", "create-entity", map[string]string{"sec-fetch-site": "cross-site"}, "bad", "", 403, "cross_origin_request"},
		{"a write from another site with an Authorization header", "create-entity", map[string]string{"sec-fetch-site": "cross-site", "origin": "https://example.net"}, "key", "key", 201, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t)
			key := strings.TrimPrefix(g.key(t, "default", access.Import, access.Export), "Bearer ")
			text := map[string]string{"key": key, "bad": wrong(key), "empty": ""}
			ev := sample(t, tt.route)
			maps.Copy(ev.Headers, tt.header)
			if tt.cookie != "" {
				ev.Cookies = []string{"theme=dark", "__Host-sluice_session=" + text[tt.cookie]}
			}
			bearer := ""
			if tt.bearer != "" {
				bearer = "Bearer " + text[tt.bearer]
			}
			if tt.status >= 400 {
				g.stores = untouchable
			}
			resp := g.invoke(t, tt.route, bearer, ev)
			if resp.StatusCode != tt.status || code(t, resp) != tt.code {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, resp.Body, tt.status, tt.code)
			}
			if tt.code == "cross_origin_request" && g.keys.reads != 0 {
				t.Errorf("%d keys were read", g.keys.reads)
			}
		})
	}
}

// Ten unknown ids in a second are read before the charge. From then on a request is charged first, and
// refused without a read if its address has no room.
func TestInvalidKeysAreChargedAndNotReadAboveTheLimit(t *testing.T) {
	for _, route := range httpapi.Routes() {
		if route.Scope == access.Public {
			continue
		}
		t.Run(route.Name, func(t *testing.T) {
			g := newGuarded(t)
			g.stores = untouchable
			var err error
			if g.limiter, err = ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Requests: 12, Imports: 12}}); err != nil {
				t.Fatal(err)
			}
			for n := range 15 {
				_, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now()) // a key that is not stored
				resp := g.invoke(t, route.Name, "Bearer "+token.Reveal(), sample(t, route.Name))
				want := 401
				if n >= 12 {
					want = 429
				}
				if reads := min(n+1, 12); resp.StatusCode != want || g.keys.reads != reads {
					t.Errorf("attempt %d: %d after %d reads of keys, want %d after %d", n, resp.StatusCode, g.keys.reads, want, reads)
				}
			}
		})
	}
}

func TestKeysThatCannotBeReadAre503WithNothingDone(t *testing.T) {
	for _, route := range httpapi.Routes() {
		g := newGuarded(t)
		if route.Scope != access.Public {
			g.stores = untouchable
		}
		g.keys.err = errors.New("the cause")
		resp := g.invoke(t, route.Name, g.key(t, "w", access.Scopes()...), sample(t, route.Name))
		if route.Scope == access.Public {
			if resp.StatusCode >= 500 {
				t.Errorf("%s: %d %s", route.Name, resp.StatusCode, resp.Body)
			}
			continue
		}
		if resp.StatusCode != 503 || code(t, resp) != "access_unavailable" || resp.Headers["Retry-After"] != "1" || resp.Headers["RateLimit"] != state[route.Class] {
			t.Errorf("%s: %d %s %v", route.Name, resp.StatusCode, resp.Body, resp.Headers)
		}
		if log := g.log.String(); strings.Contains(resp.Body, "the cause") || !strings.Contains(log, "the cause") || !strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("%s: the body is %s, the log %s", route.Name, resp.Body, log)
		}
	}
}

func TestNewFunctionRequiresAWayToCheckKeys(t *testing.T) {
	a := newAPI(t)
	for _, r := range httpapi.Routes() {
		if r.Scope != access.Public && !slices.Contains(access.Scopes(), r.Scope) {
			t.Errorf("%s has the scope %q", r.Name, r.Scope)
		}
		if _, err := httpapi.NewFunction(r.Name, a.limiter, a.stores, httpapi.Options{}); (err == nil) != (r.Scope == access.Public) {
			t.Errorf("%s without keys: error %v", r.Name, err)
		}
	}
}

func TestAccessIsOnUnlessItIsTurnedOff(t *testing.T) {
	for mode, off := range map[string]bool{"": false, "api-key": false, "none": true} {
		c, err := httpapi.LoadConfig(func(name string) string { return map[string]string{"AUTH_MODE": mode}[name] })
		if err != nil || c.AccessOff != off {
			t.Errorf("%q: %+v, %v", mode, c, err)
		}
	}
	for _, mode := range []string{"None", "off", " none", "api_key"} {
		if _, err := httpapi.LoadConfig(func(string) string { return mode }); err == nil {
			t.Errorf("%q: no error", mode)
		}
	}
}

func TestScopesAreDescribed(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                `yaml:"operationId"`
			Security    []map[string][]string `yaml:"security"`
		}
	}
	if err := yaml.Unmarshal(sluice.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	described := make(map[string]string)
	for _, item := range doc.Paths {
		for _, operation := range item {
			described[operation.OperationID] = fmt.Sprint(operation.Security)
		}
	}
	for _, r := range httpapi.Routes() {
		var needs []string
		for _, scope := range r.Scopes() {
			needs = append(needs, fmt.Sprintf("map[key:[%[1]s]] map[session:[%[1]s]]", scope))
		}
		want := "[" + strings.Join(needs, " ") + "]"
		if r.Scope == access.Public {
			want = "[]"
		}
		if got, ok := described[r.Name]; ok && got != want {
			t.Errorf("%s: security %s, want %s", r.Name, got, want)
		}
	}
}
