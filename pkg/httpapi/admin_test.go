package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/httpapi"
	"sluice/pkg/index"
	"sluice/pkg/ratelimit"
)

// administration is an API whose keys are those of its stores.
type administration struct {
	service
	api *httpapi.API
	log *bytes.Buffer
}

func newAdministration(t testing.TB, cfg httpapi.Config) administration {
	t.Helper()
	a := administration{service: newAPI(t), log: new(bytes.Buffer)}
	authenticator, err := access.NewAuthenticator(a.stores.Keys, now)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ratelimit.NewRowCache(a.stores.LimitRows, ratelimit.RowCacheConfig{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Service, cfg.Metrics = "sluice-test", httpapi.MetricsAll
	a.api, err = httpapi.New(a.limiter, a.stores, httpapi.Options{
		Config: cfg, Access: authenticator, Rows: rows, Now: now, RequestID: requestID, Logger: slog.New(slog.NewJSONHandler(a.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { secrettest.Check(t, "a handler", a.log.String()) })
	return a
}

// key stores a key like k and returns it with its token.
func (a administration) key(t testing.TB, like access.Key) (access.Key, string) {
	t.Helper()
	k, token := secrettest.New(t, like, now().Add(-time.Hour))
	if err := a.stores.Keys.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k, token.Reveal()
}

func (a administration) send(t testing.TB, token, method, target, body string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event(method, target, "192.0.2.1", body)
	ev.Headers["authorization"] = "Bearer " + token
	resp := serve(t, a.api, ev)
	if !strings.Contains(resp.Body, "no_such_route") {
		checkDescribed(t, ev, resp)
	}
	return resp
}

// made sends a request that makes a key, and returns the key and its token.
func (a administration) made(t testing.TB, by, body string) (k access.Shown, token string) {
	t.Helper()
	resp := a.send(t, by, "POST", "/create_api_key", body)
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %d %s", body, resp.StatusCode, resp.Body)
	}
	if err := json.Unmarshal([]byte(resp.Body), &k); err != nil {
		t.Fatal(err)
	}
	secrettest.Keep(k.Key)
	return k, k.Key
}

// requests has a request to each administrative route, in a workspace, and the status that a key with
// the scope admin gets in its own workspace. In others, it gets 403, or 404 for a key.
func requests(t testing.TB, a administration, workspace string) map[string]struct {
	target, body string
	status       int
	other        int
} {
	t.Helper()
	row, err := ratelimit.NewRow(ratelimit.Row{CIDR: prefixes("198.51.100.0/24")[0], Records: 5}, now())
	if err == nil {
		err = a.stores.LimitRows.Put(t.Context(), row)
	}
	d := index.Declaration{Workspace: workspace, Type: "person", Fields: index.Fields{{Name: "name", ValueType: index.Text}}}
	if err == nil {
		_, err = index.Add(t.Context(), a.stores.Declarations, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	victim, _ := a.key(t, access.Key{Workspace: workspace, Scopes: []access.Scope{access.Export}})
	type of = struct {
		target, body string
		status       int
		other        int
	}
	return map[string]of{
		"list-api-key":        {"/api_key?workspace=" + workspace, "", 200, 403},
		"create-api-key":      {"/create_api_key", `{"scopes":["export"],"workspace":"` + workspace + `"}`, 201, 403},
		"revoke-api-key":      {"/revoke_api_key", `{"id":"` + victim.ID + `"}`, 200, 404},
		"list-limit":          {"/limit", "", 403, 403},
		"set-limit":           {"/set_limit", `{"cidr":"192.0.2.0/24","records":5}`, 403, 403},
		"remove-limit":        {"/remove_limit", `{"cidr":"198.51.100.0/24"}`, 403, 403},
		"create-entity-index": {"/create_entity_index", `{"type":"person","attributes":[{"name":"email"}],"workspace":"` + workspace + `"}`, 201, 403},
		"remove-entity-index": {"/remove_entity_index", `{"type":"person","attributes":["name"],"workspace":"` + workspace + `"}`, 200, 403},
		"list-audit":          {"/audit?workspace=" + workspace, "", 200, 403},
		"set-api-key-plan":    {"/set_api_key_plan", `{"id":"` + victim.ID + `","plan":null}`, 403, 403},
	}
}

func TestWhoMayAdminister(t *testing.T) {
	scopes := [][]access.Scope{
		{access.Admin, access.Export}, {access.Operator, access.Export}, {access.Admin, access.Operator, access.Export},
		{access.Dashboard, access.Erase, access.Export, access.Import}, access.Scopes(),
	}
	cases := 0
	for _, on := range []bool{true, false} {
		for _, of := range scopes {
			for _, workspace := range []string{"own", "other"} {
				a := newAdministration(t, httpapi.Config{AdminRoutes: on})
				_, token := a.key(t, access.Key{Workspace: "own", Scopes: of})
				all := requests(t, a, workspace)
				for _, r := range httpapi.Routes() {
					if !r.Admin() {
						continue
					}
					cases++
					request, known := all[r.Name]
					want := request.status
					switch {
					case !known:
						t.Errorf("no request to %s is tested", r)
					case !on:
						want = http.StatusNotFound
					case !slices.Contains(of, access.Admin):
						want = http.StatusForbidden
					case slices.Contains(of, access.Operator) && want == http.StatusForbidden:
						want = http.StatusOK
					case !slices.Contains(of, access.Operator) && workspace == "other":
						want = request.other
					}
					resp := a.send(t, token, r.Method, request.target, request.body)
					if resp.StatusCode != want || !on && code(t, resp) != "no_such_route" {
						t.Errorf("%s in the %s workspace with %v, on %v: %d %s, want %d", r, workspace, of, on, resp.StatusCode, resp.Body, want)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// A path that does not exist is charged to the default route, and has no methods.
func TestAdministrationThatIsOffLooksLikeAnUnknownPath(t *testing.T) {
	a := newAdministration(t, httpapi.Config{})
	for _, r := range httpapi.Routes() {
		if !r.Admin() {
			continue
		}
		for _, method := range []string{r.Method, "PATCH", http.MethodOptions} {
			got, want := serve(t, a.api, lambdatest.Event(method, r.Path, "192.0.2.1", "")), serve(t, a.api, lambdatest.Event(method, "/nowhere", "192.0.2.2", ""))
			want.Body = strings.ReplaceAll(want.Body, "/nowhere", r.Path)
			want.Headers["Content-Length"] = fmt.Sprint(len(want.Body))
			if got.StatusCode != 404 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %s: %v, want %v", method, r.Path, got, want)
			}
		}
	}
	if log := a.log.String(); strings.Contains(log, `"Route":"list-api-key"`) {
		t.Errorf("the log has %s", log)
	}
}

func TestAMadeKeyCannotDoMoreThanItsMaker(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	expiry := now().UTC().Add(24 * time.Hour).Truncate(time.Millisecond)
	maker, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin, access.Export, access.Dashboard}, ExpiresAt: expiry, From: prefixes("192.0.2.0/24")})
	for body, field := range map[string]string{
		`{"scopes":["import"]}`:                                              "scopes",
		`{"scopes":["admin"]}`:                                               "scopes",
		`{"scopes":["operator"]}`:                                            "scopes",
		`{"scopes":["export"],"plan":"pro"}`:                                 "plan",
		`{"scopes":["export"],"workspace":"other"}`:                          "workspace",
		`{"scopes":["export"],"from":["192.0.0.0/16"]}`:                      "from",
		`{"scopes":["export"],"from":["192.0.2.1","198.51.100.1"]}`:          "from",
		`{"scopes":["export"],"expires_at":"` + text(expiry.Add(1e6)) + `"}`: "expires_at",
		`{"scopes":["export"],"from":["2001:db8::/32"],"workspace":"acme"}`:  "from",
	} {
		if resp := a.send(t, admin, "POST", "/create_api_key", body); resp.StatusCode != 403 || code(t, resp) != "beyond_own_rights" || !strings.Contains(resp.Body, "the "+field) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, resp.Body)
		}
	}
	k, token := a.made(t, admin, `{"scopes":["export","dashboard"],"name":"n","from":["192.0.2.128/25","192.0.2.1"]}`)
	if k.Workspace != "acme" || k.MadeBy != maker.ID || k.CountedAs != maker.ID || !k.ExpiresAt.Equal(expiry) || fmt.Sprint(k.From) != "[192.0.2.1/32 192.0.2.128/25]" {
		t.Errorf("made %+v", k)
	}
	if like, _ := a.made(t, admin, `{"scopes":["export"]}`); fmt.Sprint(like.From) != "[192.0.2.0/24]" || !like.ExpiresAt.Equal(expiry) {
		t.Errorf("without addresses and expiry, it is %+v", like)
	}
	if resp := a.send(t, token, "GET", "/api_key", ""); resp.StatusCode != 403 {
		t.Errorf("the key lists keys: %d", resp.StatusCode)
	}
	for _, wrong := range []string{`{"scopes":[]}`, `{"scopes":["root"]}`, `{}`, `{"scopes":["export"],"expires_at":"2020-01-01T00:00:00Z"}`, `{"scopes":["export"],"from":["x"]}`, `{"scopes":["export"],"name":"a\nb"}`} {
		if resp := a.send(t, admin, "POST", "/create_api_key", wrong); resp.StatusCode != 422 {
			t.Errorf("%s: %d %s", wrong, resp.StatusCode, resp.Body)
		}
	}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func text(at time.Time) string { return at.Format(time.RFC3339Nano) }

// The limits of a key are those of its maker, whichever of the two is used.
func TestAMadeKeyIsCountedAsItsMaker(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	maker, admin := a.key(t, access.Key{Workspace: "acme", Plan: "pro", Scopes: []access.Scope{access.Admin, access.Export, access.Dashboard}})
	row, err := ratelimit.NewRow(ratelimit.Row{Plan: "pro", Requests: 3}, now())
	if err == nil {
		err = a.stores.LimitRows.Put(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, first := a.made(t, admin, `{"scopes":["export"]}`)
	_, second := a.made(t, admin, `{"scopes":["export"]}`)
	for i, token := range []string{first, second, admin, first, second, admin} {
		want := 200
		if i >= 3 {
			want = 429
		}
		if resp := a.send(t, token, "GET", "/entity", ""); resp.StatusCode != want || resp.Headers["X-RateLimit-Limit"] != "3" {
			t.Errorf("request %d: %d %v", i, resp.StatusCode, resp.Headers)
		}
	}
	if !strings.Contains(a.log.String(), `"counted":"key:`+maker.ID+`"`) {
		t.Errorf("the log is %s", a.log)
	}
}

func TestRevokingWithTheKeysThatAKeyMade(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, operator := a.key(t, access.Key{Workspace: "ops", Scopes: access.Scopes()})
	second, secondKey := a.made(t, operator, `{"scopes":["admin","operator","export"]}`)
	admin, adminKey := a.made(t, secondKey, `{"scopes":["admin","export"],"workspace":"acme"}`)
	leaf, leafKey := a.made(t, adminKey, `{"scopes":["export"]}`)
	if resp := a.send(t, adminKey, "POST", "/revoke_api_key", `{"id":"`+second.ID+`"}`); resp.StatusCode != 404 {
		t.Errorf("a key of another workspace: %d %s", resp.StatusCode, resp.Body)
	}
	if resp := a.send(t, adminKey, "POST", "/revoke_api_key", `{"id":"`+admin.ID+`"}`); resp.StatusCode != 403 {
		t.Errorf("a key that could not have made itself: %d %s", resp.StatusCode, resp.Body)
	}
	resp := a.send(t, operator, "POST", "/revoke_api_key", `{"id":"`+second.ID+`","made":true}`)
	var got access.Revocation
	if err := json.Unmarshal([]byte(resp.Body), &got); err != nil || got.ID != second.ID || len(got.Made) != 2 || got.Made[0].ID != admin.ID || got.Made[1].ID != leaf.ID {
		t.Errorf("%d %s, error %v", resp.StatusCode, resp.Body, err)
	}
	fresh, err := access.NewAuthenticator(a.stores.Keys, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{secondKey, adminKey, leafKey} {
		if d, err := fresh.Authenticate(t.Context(), token, prefixes("192.0.2.1/32")[0].Addr()); err != nil || d.Refused != access.ReasonRevoked {
			t.Errorf("%v: %+v, error %v", token[:16], d, err)
		}
	}
	if resp := a.send(t, secondKey, "POST", "/create_api_key", `{"scopes":["export"]}`); resp.StatusCode != 401 {
		t.Errorf("a key that is revoked, but is in the cache, makes a key: %d %s", resp.StatusCode, resp.Body)
	}
}

func TestPlansOfKeysOverHTTP(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, operator := a.key(t, access.Key{Workspace: "ops", Scopes: access.Scopes()})
	_, admin := a.key(t, access.Key{Workspace: "ops", Scopes: []access.Scope{access.Admin, access.Export}})
	k, _ := a.made(t, operator, `{"scopes":["export"],"workspace":"acme"}`)
	counted, _ := a.made(t, admin, `{"scopes":["export"]}`)
	row, err := ratelimit.NewRow(ratelimit.Row{Plan: "pro", Requests: 3}, now())
	if err == nil {
		err = a.stores.LimitRows.Put(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/set_api_key_plan", `{"id":"` + k.ID + `","plan":"pro"}`, 200, `"plan":"pro"`},
		{"/set_api_key_plan", `{"id":"` + k.ID + `","plan":null}`, 200, `"plan":""`},
		{"/set_api_key_plan", `{"id":"` + k.ID + `"}`, 422, `"plan"`},
		{"/set_api_key_plan", `{"id":null,"plan":null}`, 422, `"id"`},
		{"/set_api_key_plan", `{"id":"` + k.ID + `","plan":"max"}`, 409, "no_such_plan"},
		{"/set_api_key_plan", `{"id":"` + counted.ID + `","plan":"pro"}`, 409, "counted_as_maker"},
		{"/set_api_key_plan", `{"id":"aaaaaaaaaaaa","plan":"pro"}`, 404, "not_found"},
		{"/create_api_key", `{"scopes":["export"],"plan":"max"}`, 409, "no_such_plan"},
		{"/create_api_key", `{"scopes":["export"],"plan":"pro"}`, 201, `"counted_as":""`},
	} {
		if resp := a.send(t, operator, "POST", tt.path, tt.body); resp.StatusCode != tt.status || !strings.Contains(resp.Body, tt.want) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, resp.StatusCode, resp.Body)
		}
	}
}

func TestKeysAreListedPageByPage(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, operator := a.key(t, access.Key{Workspace: "ops", Scopes: access.Scopes()})
	_, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin}})
	for range 4 {
		a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Export}})
	}
	for _, tt := range []struct {
		token, query string
		want         int
	}{{operator, "", 6}, {operator, "workspace=acme&", 5}, {operator, "workspace=none&", 0}, {admin, "", 5}, {admin, "workspace=acme&", 5}} {
		found, cursor := make(map[string]bool), ""
		for {
			resp := a.send(t, tt.token, "GET", "/api_key?"+tt.query+"limit=2"+cursor, "")
			var page struct {
				Data []access.Shown
				Next *string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || len(page.Data) > 2 {
				t.Fatalf("%d %s", resp.StatusCode, resp.Body)
			}
			for _, k := range page.Data {
				found[k.ID] = true
			}
			if page.Next == nil {
				break
			}
			cursor = "&cursor=" + *page.Next
		}
		if len(found) != tt.want {
			t.Errorf("%q: %d keys, want %d", tt.query, len(found), tt.want)
		}
	}
}

func TestAHundredKeysCanBeCountedAsTheirMaker(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin, access.Export}})
	var last access.Shown
	for range access.MaxMade {
		last, _ = a.made(t, admin, `{"scopes":["export"]}`)
	}
	if resp := a.send(t, admin, "POST", "/create_api_key", `{"scopes":["export"]}`); resp.StatusCode != 409 || code(t, resp) != "too_many_keys" {
		t.Errorf("one more: %d %s", resp.StatusCode, resp.Body)
	}
	if resp := a.send(t, admin, "POST", "/revoke_api_key", `{"id":"`+last.ID+`"}`); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
	a.made(t, admin, `{"scopes":["export"]}`)
}

// Neither the secret nor its hash is in any response but the one, nor in the log with its metrics.
func TestSecretsAreInOneResponseOnly(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, operator := a.key(t, access.Key{Workspace: "own", Scopes: access.Scopes()})
	k, token := a.made(t, operator, `{"scopes":["export","admin"]}`)
	stored, err := a.stores.Keys.Get(t.Context(), k.ID)
	if err != nil {
		t.Fatal(err)
	}
	secret := token[strings.LastIndexByte(token, '_')+1:]
	var seen strings.Builder
	all := requests(t, a, "own")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		method := "POST"
		if r.body == "" {
			method = "GET"
		}
		for _, by := range []string{operator, token} {
			resp := a.send(t, by, method, r.target, r.body)
			if name == "create-api-key" && resp.StatusCode == 201 {
				var made access.Shown
				if err := json.Unmarshal([]byte(resp.Body), &made); err != nil {
					t.Fatal(err)
				}
				secrettest.Keep(made.Key)
				continue
			}
			fmt.Fprintln(&seen, resp)
		}
	}
	fmt.Fprintln(&seen, a.send(t, operator, "POST", "/revoke_api_key", `{"id":"`+k.ID+`","made":true}`))
	fmt.Fprintln(&seen, a.send(t, operator, "POST", "/revoke_api_key", `{"id":"`+token+`"}`)) // a client's mistake
	fmt.Fprintln(&seen, a.send(t, operator, "GET", "/audit?limit=200", ""))
	seen.Write(a.log.Bytes())
	secrettest.Check(t, "a route", strings.ReplaceAll(seen.String(), operator, ""))
	for what, text := range map[string]string{"secret": secret, "hash": stored.SecretHash.String()} {
		if strings.Contains(seen.String(), text) {
			t.Errorf("the %s is in a response or the log", what)
		}
	}
}

// wantEach sends requests by a key, and compares statuses and parts of the bodies.
func (a administration) wantEach(t *testing.T, token string, steps []adminStep) {
	t.Helper()
	for _, s := range steps {
		method := "POST"
		if s.body == "" {
			method = "GET"
		}
		if resp := a.send(t, token, method, s.target, s.body); resp.StatusCode != s.status || !strings.Contains(resp.Body, s.want) {
			t.Errorf("%s %s: %d %s; want %d %s", s.target, s.body, resp.StatusCode, resp.Body, s.status, s.want)
		}
	}
}

type adminStep struct {
	target, body string
	status       int
	want         string
}

func TestLimitsOverHTTP(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, operator := a.key(t, access.Key{Workspace: "ops", Plan: "used", Scopes: access.Scopes()})
	const row = `{"plan":"pro","action":"limit","records":1000,"note":"99 a month","updated_at":"2026-01-02T15:04:05Z"}`
	a.wantEach(t, operator, []adminStep{
		{"/limit", "", 200, `{"data":[],"next_cursor":null}`},
		{"/set_limit", `{"plan":"pro","records":1000,"note":"99 a month"}`, 200, row},
		{"/set_limit", row, 200, row}, // what a list shows can be sent back
		{"/limit", "", 200, `{"data":[` + row + `],"next_cursor":null}`},
		{"/set_limit", `{"cidr":"198.51.100.7/32","action":"block","expires_at":"2026-01-02T16:00:00Z"}`, 200, `"action":"block"`},
		{"/set_limit", `{"key_id":"7m3kq2xw9abc","requests":7}`, 200, `"key_id":"7m3kq2xw9abc"`},
		{"/set_limit", `{"plan":"max","imports":9,"records_per_day":7,"records_per_month":1000000,"imports_per_day":5,"imports_per_month":6,"export_jobs":true}`, 200, `"imports":9,"records_per_day":7,"records_per_month":1000000,"imports_per_day":5,"imports_per_month":6,"export_jobs":true`},
		{"/remove_limit", `{"plan":"max"}`, 200, ""},
		{"/set_limit", `{"cidr":"198.51.100.7/32","records_per_day":5}`, 422, "quotas"},
		{"/set_limit", `{"plan":"pro"}`, 422, "set nothing"},
		{"/set_limit", `{"plan":"pro","action":"block"}`, 422, "no action"},
		{"/set_limit", `{"records":5}`, 422, "CIDR"},
		{"/set_limit", `{"cidr":"198.51.100.7/24","records":5}`, 422, "198.51.100.0/24"},
		{"/set_limit", `{"cidr":"2001:db8::1/128","records":5}`, 422, "CLIENT_IPV6_PREFIX"},
		{"/set_limit", `{"key_id":"x","records":5}`, 422, "id of an API key"},
		{"/set_limit", `{"plan":"pro","records":-5}`, 422, "negative"},
		{"/set_limit", `{"plan":"pro","records":"5"}`, 422, `"field":"records"`},
		{"/set_limit", `{"plan":"pro","recrods":5}`, 422, `"field":"recrods"`},
		{"/set_limit", `{"plan":"pro","records":5}{}`, 400, "malformed_json"},
		{"/remove_limit", `{"plan":"pro"}`, 200, `{"plan":"pro"}`},
		{"/remove_limit", `{"plan":"pro"}`, 404, "not_found"},
		{"/remove_limit", `{"plan":"used"}`, 409, "plan_in_use"},
		{"/remove_limit", `{"key_id":"7m3kq2xw9abc"}`, 200, `{"key_id":"7m3kq2xw9abc"}`},
		{"/remove_limit", `{"cidr":"198.51.100.7/32"}`, 200, `{"cidr":"198.51.100.7/32"}`},
		{"/remove_limit", `{}`, 422, "CIDR"},
	})
}

func TestIndexesOverHTTP(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	_, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin}})
	a.wantEach(t, admin, []adminStep{
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"email","fold":true}]}`, 201, `{"resource":"entity","type":"person","attributes":[{"name":"email","value_type":"text","fold":true}],"state":"writing","done":0}`},
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"email","fold":true}]}`, 200, `"state":"writing"`},
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"email"}]}`, 409, "index_conflict"},
		{"/create_entity_index", `{"resource":"event"}`, 201, `{"resource":"event","attributes":[{"name":"name","value_type":"text"}]`},
		{"/create_entity_index", `{"resource":"event","type":"person"}`, 422, "by name only"},
		{"/create_entity_index", `{"type":"person"}`, 422, "attributes"},
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"born","value_type":"date"}]}`, 422, ""},
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"a"},{"name":"a"}]}`, 422, "given twice"},
		{"/create_entity_index", `{"resource":"job"}`, 422, "entity or event"},
		{"/remove_entity_index", `{"type":"person","attributes":["email"]}`, 200, `"state":"removing"`},
		{"/remove_entity_index", `{"type":"person","attributes":["email"]}`, 200, `"state":"removing"`},
		{"/create_entity_index", `{"type":"person","attributes":[{"name":"email","fold":true}]}`, 409, "index_removing"},
		{"/remove_entity_index", `{"resource":"event"}`, 200, `"resource":"event"`},
		{"/remove_entity_index", `{"type":"person","attributes":["born"]}`, 404, "not_found"},
	})
	for i := range 99 {
		d := index.Declaration{Workspace: "acme", Type: fmt.Sprint("t", i), Fields: index.Fields{{Name: "a", ValueType: index.Text}}}
		if _, err := index.Add(t.Context(), a.stores.Declarations, d); err != nil {
			t.Fatal(err)
		}
	}
	a.wantEach(t, admin, []adminStep{{"/create_entity_index", `{"type":"more","attributes":[{"name":"a"}]}`, 409, "too_many_indexes"}})
}

func TestTheAuditTrail(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	operatorKey, operator := a.key(t, access.Key{Workspace: "ops", Scopes: access.Scopes()})
	adminKey, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin, access.Export}})
	k, _ := a.made(t, admin, `{"scopes":["export"]}`)
	a.wantEach(t, operator, []adminStep{
		{"/set_limit", `{"plan":"pro","records":1000}`, 200, ""},
		{"/set_limit", `{"plan":"pro","records":2000}`, 200, ""},
		{"/revoke_api_key", `{"id":"` + k.ID + `"}`, 200, ""},
		{"/set_api_key_plan", `{"id":"` + k.ID + `","plan":"pro"}`, 409, ""},
	})
	list := func(token, query string) (all []audit.Record) {
		resp := a.send(t, token, "GET", "/audit"+query, "")
		var page struct{ Data []audit.Record }
		if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
		return page.Data
	}
	show := func(all []audit.Record) (text string) {
		for _, r := range all {
			text += fmt.Sprintln(r.Workspace, r.By, r.From, r.Action, r.Of, r.Result, strings.Contains(string(r.Old), `"records":1000`), strings.Contains(string(r.New), `"status":"revoked"`))
		}
		return text
	}
	by, of := "key:"+operatorKey.ID+" 192.0.2.1 ", "key:"+k.ID
	acme := "acme " + by + "set-api-key-plan " + of + " failed false false\n" + "acme " + by + "revoke-api-key " + of + " done false true\n"
	made := "acme key:" + adminKey.ID + " 192.0.2.1 create-api-key " + of + " done false false\n"
	limits := " " + by + "set-limit plan:pro done true false\n " + by + "set-limit plan:pro done false false\n"
	if got := show(list(admin, "")); got != acme+made {
		t.Errorf("of the workspace:\n%s\nwant\n%s", got, acme+made)
	}
	if got := show(list(operator, "")); got != acme+limits+made {
		t.Errorf("of all workspaces:\n%s\nwant\n%s", got, acme+limits+made)
	}
	for query, want := range map[string]string{
		"?by=key:" + adminKey.ID:    made,
		"?of=plan:":                 limits,
		"?of=" + of + "&by=command": "",
		"?of=" + of + "&limit=1":    strings.SplitAfter(acme, "\n")[0],
	} {
		if got := show(list(operator, query)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
		}
	}
	for _, query := range []string{"?by=", "?of=" + strings.Repeat("x", 601), "?of=%ff"} {
		if resp := a.send(t, operator, "GET", "/audit"+query, ""); resp.StatusCode != 400 {
			t.Errorf("%.20s: %d", query, resp.StatusCode)
		}
	}
	if got := show(list(operator, "?workspace=acme&limit=1")); got != strings.SplitAfter(acme, "\n")[0] {
		t.Errorf("the newest of one: %s", got)
	}
}

// fullRows has no room.
type fullRows struct{ ratelimit.RowManager }

func (fullRows) Put(context.Context, ratelimit.Row) error { return ratelimit.ErrTooManyRows }

func TestThereIsNoRoomForLimits(t *testing.T) {
	a := newAdministration(t, httpapi.Config{AdminRoutes: true})
	a.stores.LimitRows = fullRows{a.stores.LimitRows}
	resp := a.invoke(t, "set-limit", lambdatest.Event("POST", "/set_limit", "192.0.2.1", `{"plan":"pro","imports":5,"records_per_day":5,"imports_per_month":5}`))
	if resp.StatusCode != 409 || code(t, resp) != "too_many_limits" {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
}

// brokenTrail fails from a number of puts on.
type brokenTrail struct {
	audit.Store
	puts, good int
}

func (s *brokenTrail) Put(ctx context.Context, r audit.Record) error {
	if s.puts++; s.puts > s.good {
		return errors.New("broken")
	}
	return s.Store.Put(ctx, r)
}

// A change that cannot be recorded is not made. If only its result is lost, the record says that it was
// intended.
func TestNoChangeWithoutItsRecord(t *testing.T) {
	for good, status := range []int{503, 201} {
		a := newAdministration(t, httpapi.Config{AdminRoutes: true})
		trail := a.stores.Audit
		a.stores.Audit = &brokenTrail{Store: trail, good: good}
		_, admin := a.key(t, access.Key{Workspace: "acme", Scopes: []access.Scope{access.Admin, access.Export}})
		ev := lambdatest.Event("POST", "/create_api_key", "192.0.2.1", `{"scopes":["export"]}`)
		ev.Headers["authorization"] = "Bearer " + admin
		authenticator, err := access.NewAuthenticator(a.stores.Keys, now)
		if err != nil {
			t.Fatal(err)
		}
		opts := httpapi.Options{Config: httpapi.Config{AdminRoutes: true}, Access: authenticator, Now: now, RequestID: requestID, Logger: slog.New(slog.NewJSONHandler(a.log, nil))}
		resp := serve(t, newFunction(t, "create-api-key", a.service, opts), ev)
		checkDescribed(t, ev, resp)
		keys, err := access.All(t.Context(), a.stores.Keys, "acme")
		page, listErr := trail.List(t.Context(), audit.Query{All: true, Limit: 10})
		if err != nil || listErr != nil || resp.StatusCode != status || len(keys) != 1+good || len(page.Records) != good {
			t.Errorf("%d: %d %s, %d keys, %+v", good, resp.StatusCode, resp.Body, len(keys), page.Records)
		}
		if good == 1 && (page.Records[0].Result != audit.Intended || !strings.Contains(a.log.String(), "without its result")) {
			t.Errorf("%+v, log %s", page.Records, a.log)
		}
	}
}
