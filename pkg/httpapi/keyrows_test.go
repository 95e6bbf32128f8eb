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
		used, err := g.counters.Used(t.Context(), identity, []ratelimit.Group{ratelimit.Route{Name: r.Name, Class: r.Class}.Group()}, ratelimit.WindowAt(now()))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, used[len(used)-1])
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
