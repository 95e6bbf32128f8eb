package functions_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/httpapi"
)

// keyring is a deployment's table of API keys.
type keyring struct {
	*dynamo.Keys
	table string
}

// guard makes the deployment's functions require API keys.
func (d *deployment) guard(t *testing.T) keyring {
	t.Helper()
	k := keyring{table: dynamolocal.Table(t, "KeysTable")}
	var err error
	if k.Keys, err = dynamo.NewKeys(dynamolocal.Client(t), k.table); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "AUTH_MODE=", "KEYS_TABLE="+k.table) // overrides AUTH_MODE=none
	return k
}

// create returns the token of a new API key.
func (k keyring) create(t *testing.T, workspace string, scopes ...access.Scope) string {
	t.Helper()
	return k.createLike(t, access.Key{Workspace: workspace, Scopes: scopes})
}

func (k keyring) createLike(t *testing.T, like access.Key) string {
	t.Helper()
	key, token := secrettest.New(t, like, time.Now().Add(-time.Hour))
	key.RevokedAt = like.RevokedAt
	if err := k.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// publicReads is how many tables, besides the counters, a public route's function reads.
var publicReads = map[string]int{"health": 2}

// checkInvalidKeys sends ev without an API key and with an unknown one. A function that requires
// a key must use only the tables of keys and counters. A public route's function must neither
// check the key nor use the table of keys. TestEveryRouteAcceptsOnlyTheRightKey in package
// httpapi_test has the other kinds of keys.
func (k keyring) checkInvalidKeys(t *testing.T, proxy *dynamoproxy.Proxy, instance *lambdatest.Instance, function string, ev events.APIGatewayV2HTTPRequest) {
	t.Helper()
	routes := httpapi.Routes()
	public := routes[slices.IndexFunc(routes, func(r httpapi.Route) bool { return r.Name == function })].Scope == access.Public
	_, unknown := secrettest.New(t, access.Key{Workspace: "mine", Scopes: access.Scopes()}, time.Now())
	for _, tt := range []struct {
		code, key string
		reads     int // how many times the table of keys is read
	}{{"missing_key", "", 0}, {"invalid_key", "Bearer " + unknown.Reveal(), 1}} {
		if tt.key != "" {
			ev.Headers["authorization"] = tt.key
		}
		before := proxy.Usage()
		resp, err := instance.Invoke(t.Context(), ev)
		if err != nil {
			t.Fatal(err)
		}
		after := proxy.Usage()
		maps.DeleteFunc(after, func(call dynamoproxy.Call, u dynamoproxy.Usage) bool { return u.Calls == before[call].Calls })
		if public {
			if resp.StatusCode == 401 || resp.StatusCode == 403 || len(after) != 1+publicReads[function] {
				t.Errorf("%s is public, and responds to %s with: %d %s after %v", function, tt.code, resp.StatusCode, resp.Body, after)
			}
			continue
		}
		if resp.StatusCode != 401 || !strings.Contains(resp.Body, `"code":"`+tt.code+`"`) {
			t.Errorf("%s: %d %s, want 401 %s", function, resp.StatusCode, resp.Body, tt.code)
		}
		reads := 0
		for call, u := range after {
			switch {
			case call.Table == k.table && call.Operation == "GetItem":
				reads = u.Calls - before[call].Calls
			case call.Operation != "UpdateItem" || u.Calls-before[call].Calls != 1:
				t.Errorf("%s, %s: %d calls of %v", function, tt.code, u.Calls-before[call].Calls, call)
			}
		}
		if reads != tt.reads {
			t.Errorf("%s, %s: %d reads of keys, want %d", function, tt.code, reads, tt.reads)
		}
	}
}

// A new instance rejects a revoked key immediately. The tests of package access, which have a
// fake clock, show that a cached key is read again after a minute.
func TestKeysAreReadOnceAndRevokedAtOnceInANewInstance(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	keys := d.guard(t)
	reads := func() int { return proxy.Usage()[dynamoproxy.Call{Operation: "GetItem", Table: keys.table}].Calls }
	event := func(key string) events.APIGatewayV2HTTPRequest {
		ev := lambdatest.Event("GET", "/entity", "192.0.2.1", "")
		ev.Headers["authorization"] = "Bearer " + key
		return ev
	}
	key := keys.create(t, "mine", access.Export)
	_, unknown := secrettest.New(t, access.Key{Workspace: "mine", Scopes: access.Scopes()}, time.Now())
	instances := d.start(t, "list-entity", 3)
	start := time.Now()
	for range 10 {
		for _, instance := range instances[:2] {
			invoke(t, instance, event(key), http.StatusOK)
			invoke(t, instance, event(unknown.Reveal()), http.StatusUnauthorized)
		}
	}
	if n := reads(); n != 4 && time.Since(start) < access.MaxAge {
		t.Errorf("40 requests of two keys on two instances made %d reads, want 4", n)
	}
	if _, err := keys.Revoke(t.Context(), strings.Split(key, "_")[1], time.Now()); err != nil {
		t.Fatal(err)
	}
	invoke(t, instances[2], event(key), http.StatusUnauthorized)
	if time.Since(start) < access.MaxAge {
		invoke(t, instances[0], event(key), http.StatusOK) // the cached key still applies
	}
}

func TestUnreadableKeysAre503WithNothingDone(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	keys := d.guard(t)
	instance := d.start(t, "create-event", 1)[0]
	ev := lambdatest.Event("POST", "/create_event", "192.0.2.1", `{"name":"n"}`)
	ev.Headers["authorization"] = "Bearer " + keys.create(t, "mine", access.Import)
	for name, fault := range map[string]dynamoproxy.Fault{
		"500":         {Error: dynamoproxy.InternalServerError, Skip: true},
		"throttled":   {Error: dynamoproxy.Throttled, Skip: true},
		"dropped":     {Drop: true, Skip: true},
		"no response": {Delay: 3 * time.Second},
	} {
		proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
			if call.Table == keys.table {
				return fault
			}
			return dynamoproxy.Fault{}
		})
		resp := invoke(t, instance, ev, http.StatusServiceUnavailable)
		if resp.Headers["Retry-After"] != "1" || !strings.Contains(resp.Body, `"code":"access_unavailable"`) || strings.Contains(resp.Body, keys.table) {
			t.Errorf("%s: %v %s", name, resp.Headers, resp.Body)
		}
	}
	if n := count(t, d.events); n != 0 {
		t.Errorf("%d events were written", n)
	}
	if log := instance.Log(); strings.Count(log, "read API key "+strings.Split(ev.Headers["authorization"], "_")[1]) != 4 {
		t.Errorf("the log does not contain the cause of each failure: %s", log)
	}
	proxy.SetFault(nil)
	invoke(t, instance, ev, http.StatusCreated)
}

// Without a table of keys, only functions of public routes start, unless AUTH_MODE turns API
// keys off.
func TestAFunctionWithoutItsKeysDoesNotStart(t *testing.T) {
	t.Parallel()
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, "AUTH_MODE=", "KEYS_TABLE=")
	closed := lambdatest.Start(t, lambdatest.Build(t, "list-entity"), d.env...)
	if err := closed.Ready(t.Context()); !errors.Is(err, child.ErrExited) || !strings.Contains(err.Error(), "needs API keys") {
		t.Errorf("without a table of keys: %v", err)
	}
	invoke(t, d.start(t, "openapi", 1)[0], lambdatest.Event("GET", "/openapi.yaml", "192.0.2.1", ""), http.StatusOK)
}
