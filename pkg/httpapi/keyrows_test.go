package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

type keyRows struct {
	*guarded
	counters *memory.Counters
}

// withKeyRows returns an API that reads store at its first request; tests can add rows until then.
func withKeyRows(t *testing.T, store *rows) keyRows {
	t.Helper()
	g := keyRows{newGuarded(t), memory.NewCounters()}
	g.service = withRows(t, g.counters, store)
	g.opts.Rows = g.rows
	return g
}

func idOf(key string) string { return strings.Split(key, "_")[1] }

// charged returns all of an identity's counters in the current window.
func (g keyRows) charged(t *testing.T, identity string) string {
	t.Helper()
	all := make(map[string]int64)
	for _, r := range httpapi.Routes() {
		used, err := g.counters.Used(t.Context(), identity, []ratelimit.Route{{Name: r.Name, Class: r.Class}}, ratelimit.WindowAt(now()))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, used.Seconds[len(used.Seconds)-1])
	}
	return strings.TrimPrefix(fmt.Sprint(all), "map")
}

func createEvent(address string) events.APIGatewayV2HTTPRequest {
	return lambdatest.Event("POST", "/create_event", address, `{"name":"n"}`)
}

// Requests from the same addresses with other keys are still counted by address.
func TestAKeyWithARowIsCountedOverAllAddresses(t *testing.T) {
	store := rowsOf(ratelimit.Limits{Action: ratelimit.ActionLimit, Imports: 7}, "192.0.2.0/24")
	g := withKeyRows(t, &store)
	key, other := g.key(t, "w", access.Import, access.Export), g.key(t, "w", access.Import)
	store = append(store, ratelimit.Row{KeyID: idOf(key), Action: "limit", Records: 5, Imports: 3})
	want := func(route, key string, ev events.APIGatewayV2HTTPRequest, status int, limits string) {
		t.Helper()
		if resp := g.invoke(t, route, key, ev); resp.StatusCode != status || resp.Headers["RateLimit-Policy"] != limits {
			t.Errorf("%d %s with %s, want %d with %s", resp.StatusCode, resp.Body, resp.Headers["RateLimit-Policy"], status, limits)
		}
	}
	const ofKey = `"imports";q=3;w=1, "requests";q=200;w=1`
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		want("create-event", key, createEvent(address), 201, ofKey)
	}
	want("create-event", key, createEvent("198.51.100.1"), 429, ofKey)
	want("create-event", other, createEvent("192.0.2.1"), 201, `"imports";q=7;w=1, "requests";q=200;w=1`)
	want("list-event", key, lambdatest.Event("GET", "/event", "192.0.2.9", ""), 200, `"records";q=5;w=1, "requests";q=200;w=1`)
	want("not-found", key, lambdatest.Event("GET", "/nowhere", "192.0.2.8", ""), 404, `"requests";q=200;w=1`)
	want("openapi", key, lambdatest.Event("GET", "/openapi.yaml", "192.0.2.8", ""), 200, `"requests";q=200;w=1`)
	for identity, counters := range map[string]string{
		"key:" + idOf(key): "[imports:3 r_create_event:3 r_list_event:1 records:4]",
		"192.0.2.1":        "[imports:1 r_create_event:1]",
		"192.0.2.2":        "[]", "2001:db8::/64": "[]", "198.51.100.1": "[]", "192.0.2.9": "[]",
		"192.0.2.8": "[r_not_found:1 r_openapi:1]", // a route that needs no key counts the address
	} {
		if got := g.charged(t, identity); got != counters {
			t.Errorf("%s: %s, want %s", identity, got, counters)
		}
	}
	if g.keys.reads != 2 {
		t.Errorf("two keys were read %d times", g.keys.reads)
	}
	var line struct{ Counted, Address string }
	if first, _, _ := strings.Cut(g.log.String(), "\n"); json.Unmarshal([]byte(first), &line) != nil || line.Counted != "key:"+idOf(key) || line.Address != "192.0.2.1" {
		t.Errorf("the log line of the first request is %s", first)
	}
	if n := strings.Count(g.log.String(), `"counted":`); n != 5 {
		t.Errorf("%d log lines name a key as counted, want 5: %s", n, g.log)
	}
}

// All requests with an invalid token are rejected, leave the key's counters alone, and together
// cause at most one read of the key.
func TestATokenThatIsNotValidIsCountedByItsAddress(t *testing.T) {
	const address = "192.0.2.1"
	for name, tt := range map[string]struct {
		change func(*access.Key) // of the stored key
		key    func(string) string
		ev     func(*events.APIGatewayV2HTTPRequest)
		status int
		reads  int
		by     string // "key" if the key is counted; "" for the address
	}{
		"valid":        {status: 201, reads: 1, by: "key"},
		"wrong secret": {key: wrong, status: 401, reads: 1},
		"revoked":      {change: func(k *access.Key) { k.RevokedAt = now() }, status: 401, reads: 1},
		"expired":      {change: func(k *access.Key) { k.ExpiresAt = now() }, status: 401, reads: 1},
		"elsewhere":    {change: func(k *access.Key) { k.From = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/31")} }, status: 401, reads: 1},
		"in its block": {change: func(k *access.Key) { k.From = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/31")} }, status: 201, reads: 1, by: "key"},
		"no scope":     {change: func(k *access.Key) { k.Scopes = []access.Scope{access.Export} }, status: 403, reads: 1, by: "key"},
		"not a bearer": {key: func(k string) string { return "Basic" + strings.TrimPrefix(k, "Bearer") }, status: 401},
		"malformed":    {key: func(k string) string { return k + "2" }, status: 401},
		"no key":       {key: func(string) string { return "" }, status: 401},
		"a cookie of another origin": {key: func(string) string { return "" }, status: 403, ev: func(ev *events.APIGatewayV2HTTPRequest) {
			ev.Headers["sec-fetch-site"], ev.Headers["x-forwarded-proto"] = "cross-site", "https"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			store := rows{}
			g := withKeyRows(t, &store)
			key := g.keyLike(t, access.Key{Workspace: "w", Scopes: []access.Scope{access.Import}}, func(k *access.Key) {
				if tt.change != nil {
					tt.change(k)
				}
			})
			store = append(store, ratelimit.Row{KeyID: idOf(key), Action: "limit", Imports: 100})
			ev := createEvent(address)
			if tt.ev != nil {
				tt.ev(&ev)
				ev.Cookies = []string{"__Host-sluice_session=" + strings.TrimPrefix(key, "Bearer ")}
			}
			sent := key
			if tt.key != nil {
				sent = tt.key(key)
			}
			const requests = 20
			limit := "200"
			if tt.by == "key" {
				limit = "100"
			}
			for range requests {
				if resp := g.invoke(t, "create-event", sent, ev); resp.StatusCode != tt.status || resp.Headers["X-RateLimit-Limit"] != limit {
					t.Fatalf("%d %s, limit %s", resp.StatusCode, resp.Body, resp.Headers["X-RateLimit-Limit"])
				}
			}
			byKey, byAddress := "[]", fmt.Sprintf("[imports:%d r_create_event:%[1]d]", requests)
			if tt.by == "key" {
				byKey, byAddress = byAddress, byKey
			}
			if k, a := g.charged(t, "key:"+idOf(key)), g.charged(t, address); k != byKey || a != byAddress || g.keys.reads != tt.reads {
				t.Errorf("the key has %s, the address %s, after %d reads of keys", k, a, g.keys.reads)
			}
		})
	}
}

// While a key cannot be read, its validity is unknown, so the address is counted and the response
// is 503. A key that does not exist is read only once.
func TestKeysOfRowsThatCannotBeRead(t *testing.T) {
	store := rows{}
	g := withKeyRows(t, &store)
	key := g.key(t, "w", access.Import)
	store = append(store, ratelimit.Row{KeyID: idOf(key), Action: "limit", Imports: 1})
	g.keys.err = fmt.Errorf("the table is down")
	for range 3 {
		if resp := g.invoke(t, "create-event", key, createEvent("192.0.2.1")); resp.StatusCode != 503 || code(t, resp) != "access_unavailable" {
			t.Errorf("%d %s", resp.StatusCode, resp.Body)
		}
	}
	if g.keys.reads != 3 {
		t.Errorf("three requests tried to read the key %d times", g.keys.reads)
	}
	g.keys.err, g.keys.reads = nil, 0
	delete(g.keys.keys, idOf(key))
	for range 3 {
		if resp := g.invoke(t, "create-event", key, createEvent("192.0.2.1")); resp.StatusCode != 401 {
			t.Errorf("%d %s", resp.StatusCode, resp.Body)
		}
	}
	if k, a := g.charged(t, "key:"+idOf(key)), g.charged(t, "192.0.2.1"); k != "[]" || a != "[imports:6 r_create_event:6]" || g.keys.reads != 1 {
		t.Errorf("the key has %s, the address %s, after %d reads of a key that does not exist", k, a, g.keys.reads)
	}
}

// A blocked address is refused whatever the key's row says, and the key is not read.
func TestActionsOfKeys(t *testing.T) {
	for _, tt := range []struct {
		action ratelimit.Action
		status int
		code   string
	}{
		{ratelimit.ActionLimit, 429, "rate_limit_exceeded"}, {ratelimit.ActionUnlimited, 201, ""}, {ratelimit.ActionObserve, 201, ""}, {ratelimit.ActionBlock, 403, "key_blocked"},
	} {
		store := rowsOf(ratelimit.Limits{Action: ratelimit.ActionBlock}, "198.51.100.0/24")
		g := withKeyRows(t, &store)
		key := g.key(t, "w", access.Import)
		row := ratelimit.Row{KeyID: idOf(key), Action: tt.action, Imports: 1}
		if tt.action == ratelimit.ActionBlock {
			row.Imports = 0
		}
		store = append(store, row)
		if resp := g.invoke(t, "create-event", key, createEvent("198.51.100.1")); code(t, resp) != "address_blocked" || g.keys.reads != 0 {
			t.Errorf("%s from a blocked address: %d %s, %d reads of keys", tt.action, resp.StatusCode, resp.Body, g.keys.reads)
		}
		g.invoke(t, "create-event", key, createEvent("192.0.2.1"))
		if resp := g.invoke(t, "create-event", key, createEvent("192.0.2.2")); resp.StatusCode != tt.status || code(t, resp) != tt.code {
			t.Errorf("%s: %d %s", tt.action, resp.StatusCode, resp.Body)
		}
		if resp := g.invoke(t, "create-event", wrong(key), createEvent("192.0.2.2")); resp.StatusCode != 401 {
			t.Errorf("%s, wrong secret: %d %s", tt.action, resp.StatusCode, resp.Body)
		}
	}
}

// A key's own row overrides single limits of its plan. If the plan is missing, the defaults apply to
// the key, and the log and a metric say so.
func TestAKeyWithAPlanIsCountedByItself(t *testing.T) {
	store := rowsOf(ratelimit.Limits{Action: ratelimit.ActionLimit, Imports: 7}, "192.0.2.0/24")
	store = append(store, ratelimit.Row{Plan: "pro", Action: "limit", Imports: 3, Requests: 50})
	g := withKeyRows(t, &store)
	of := func(plan string) string {
		return g.keyLike(t, access.Key{Workspace: "w", Plan: plan, Scopes: []access.Scope{access.Import}}, func(*access.Key) {})
	}
	pro, other, special, lost := of("pro"), of("pro"), of("pro"), of("gone")
	store = append(store, ratelimit.Row{KeyID: idOf(special), Action: "limit", Imports: 5})
	for _, tt := range []struct {
		key    string
		limits string
		room   int
	}{
		{pro, `"imports";q=3;w=1, "requests";q=50;w=1`, 3},
		{other, `"imports";q=3;w=1, "requests";q=50;w=1`, 3},
		{special, `"imports";q=5;w=1, "requests";q=50;w=1`, 5},
		{lost, `"imports";q=200;w=1, "requests";q=200;w=1`, 200},
	} {
		for n := range 6 {
			status := 201
			if n >= tt.room {
				status = 429
			}
			resp := g.invoke(t, "create-event", tt.key, createEvent(fmt.Sprintf("192.0.2.%d", n+1)))
			if resp.StatusCode != status || resp.Headers["RateLimit-Policy"] != tt.limits {
				t.Errorf("request %d of %s: %d with %s, want %d with %s", n, idOf(tt.key), resp.StatusCode, resp.Headers["RateLimit-Policy"], status, tt.limits)
			}
		}
	}
	if got := g.charged(t, "192.0.2.1"); got != "[]" {
		t.Errorf("the address is charged %s", got)
	}
	if n, m := strings.Count(g.log.String(), `"missing_plan":"gone"`), strings.Count(g.log.String(), `"MissingPlans":1`); n != 6 || m != 6 || strings.Count(g.log.String(), "missing_plan") != 6 {
		t.Errorf("%d lines and %d metrics tell of the missing plan: %s", n, m, g.log)
	}
}

// Beyond the bound of guesses, the address is charged first; then the key too, whose result stands.
func TestAKeyOfAPlanBehindAnAddressThatGuesses(t *testing.T) {
	const address = "192.0.2.1"
	store := rowsOf(ratelimit.Limits{Action: ratelimit.ActionLimit, Imports: 12, Requests: 100}, address+"/32")
	store = append(store, ratelimit.Row{Plan: "pro", Action: "limit", Imports: 3})
	g := withKeyRows(t, &store)
	like := access.Key{Workspace: "w", Plan: "pro", Scopes: []access.Scope{access.Import, access.Export}}
	early, late, export := g.keyLike(t, like, func(*access.Key) {}), g.keyLike(t, like, func(*access.Key) {}), g.keyLike(t, like, func(*access.Key) {})
	want := func(what, route, key string, ev events.APIGatewayV2HTTPRequest, status int) {
		t.Helper()
		if resp := g.invoke(t, route, key, ev); resp.StatusCode != status {
			t.Errorf("%s: %d %s, want %d", what, resp.StatusCode, resp.Body, status)
		}
	}
	want("before the guesses", "create-event", early, createEvent(address), 201)
	for range 10 {
		_, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now())
		want("a guess", "create-event", "Bearer "+token.Reveal(), createEvent(address), 401)
	}
	want("a known key", "create-event", early, createEvent(address), 201)
	want("an unknown key, the address has room", "create-event", late, createEvent(address), 201)
	want("an unknown key, the address has room", "list-event", export, lambdatest.Event("GET", "/event", address, ""), 200)
	want("the key is known now", "create-event", late, createEvent(address), 201)
	for range 2 { // 10 guesses, the first request of late, and this one
		_, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now())
		g.invoke(t, "create-event", "Bearer "+token.Reveal(), createEvent(address))
	}
	unread := g.keyLike(t, like, func(*access.Key) {})
	want("an unknown key, the address has no room", "create-event", unread, createEvent(address), 429)
	want("the key has room", "create-event", late, createEvent(address), 201)
	want("the key has none", "create-event", late, createEvent(address), 429)
	for identity, counters := range map[string]string{
		"key:" + idOf(early): "[imports:2 r_create_event:2]", "key:" + idOf(late): "[imports:3 r_create_event:3]", "key:" + idOf(unread): "[]",
		"key:" + idOf(export): "[r_list_event:1 records:3]", address: "[imports:12 r_create_event:12]",
	} {
		if got := g.charged(t, identity); got != counters {
			t.Errorf("%s: %s, want %s", identity, got, counters)
		}
	}
}

// All within a second: the reads of keys are those of the requests that the address may make, and the key
// of a plan beside the guesses has its limit.
func TestGuessesCauseNoMoreReadsThanTheAddressMayMakeRequests(t *testing.T) {
	guesses, addressLimit, keyLimit := 600, 200, 50
	store := rows{{Plan: "pro", Action: "limit", Imports: int64(keyLimit)}}
	g := withKeyRows(t, &store)
	key := g.keyLike(t, access.Key{Workspace: "w", Plan: "pro", Scopes: []access.Scope{access.Import}}, func(*access.Key) {})
	statuses, admitted := make(map[int]int), 0
	for range guesses {
		_, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now())
		statuses[g.invoke(t, "create-event", "Bearer "+token.Reveal(), createEvent("192.0.2.1")).StatusCode]++
		if g.invoke(t, "create-event", key, createEvent("192.0.2.1")).StatusCode == 201 {
			admitted++
		}
	}
	t.Logf("%d guesses: %v, %d reads of keys, %d requests of the key admitted", guesses, statuses, g.keys.reads, admitted)
	if statuses[401] != addressLimit || statuses[429] != guesses-addressLimit || g.keys.reads != addressLimit+1 || admitted != keyLimit {
		t.Errorf("%d guesses: %v, %d reads of keys, %d requests of the key admitted", guesses, statuses, g.keys.reads, admitted)
	}
}

// Without a parameter, GET /usage describes the identity under which the caller is counted.
func TestUsageOfOthersNeedsTheScopeOperator(t *testing.T) {
	store := rows{}
	g := withKeyRows(t, &store)
	counted, user, operator := g.key(t, "w", access.Dashboard), g.key(t, "w", access.Dashboard), g.key(t, "w", access.Dashboard, access.Operator)
	store = append(store, ratelimit.Row{KeyID: idOf(counted), Action: "observe", Records: 9})
	for _, tt := range []struct {
		key, query string
		status     int
		code       string // code of the problem, or the counted identity
		records    int64  // the records limit
	}{
		{counted, "", 200, "key:" + idOf(counted), 9},
		{user, "", 200, "address:192.0.2.1", 200},
		{user, "?address=192.0.2.1", 403, "missing_scope", 0},
		{user, "?key=" + idOf(user), 403, "missing_scope", 0},
		{user, "?address=here", 400, "invalid_parameter", 0},
		{operator, "", 200, "address:192.0.2.1", 200},
		{operator, "?address=192.0.2.7", 200, "address:192.0.2.7", 200},
		{operator, "?address=2001:db8::1", 200, "address:2001:db8::/64", 200},
		{operator, "?key=" + idOf(counted), 200, "key:" + idOf(counted), 9},
		{operator, "?key=" + idOf(user), 200, "key:" + idOf(user), 200},
		{operator, "?key=7m3k", 400, "invalid_parameter", 0},
		{operator, "?key=", 400, "invalid_parameter", 0},
		{operator, "?address=192.0.2.7&key=" + idOf(user), 400, "invalid_parameter", 0},
	} {
		resp := g.invoke(t, "usage", tt.key, lambdatest.Event("GET", "/usage"+tt.query, "192.0.2.1", ""))
		var u api.Usage
		if tt.status == 200 && json.Unmarshal([]byte(resp.Body), &u) != nil || resp.StatusCode != tt.status || code(t, resp)+u.Counted != tt.code || u.Limits.Records != tt.records {
			t.Errorf("%s: %d %s, counted %s with %d records", tt.query, resp.StatusCode, code(t, resp), u.Counted, u.Limits.Records)
		}
	}
}
