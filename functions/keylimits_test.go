package functions_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

// offices are the addresses from which a key is used.
var offices = []string{"198.51.100.1", "198.51.100.2", "2001:db8::1"}

func keyed(ev events.APIGatewayV2HTTPRequest, token string) events.APIGatewayV2HTTPRequest {
	ev.Headers["authorization"] = "Bearer " + token
	return ev
}

func identityOf(token string) string { return "key:" + strings.Split(token, "_")[1] }

// Eight processes receive imports that use one key from three addresses. Each full window
// admits exactly the key's limit, summed over all addresses. Requests with a second key, which
// has no row, count against their addresses.
func TestAKeyIsLimitedOverAllAddressesAcrossProcesses(t *testing.T) {
	const processes, windowsWanted, limit = 8, 5, 50
	d := deploy(t, dynamolocal.Endpoint(t))
	keys := d.guard(t)
	team, other := keys.create(t, "mine", access.Import), keys.create(t, "mine", access.Import)
	d.setRow(t, identityOf(team), ratelimit.Limits{Imports: limit})
	beside := d.start(t, "create-event", 1)[0]
	calls := d.countCalls(t) // counts only the calls of the instances started below
	instances := d.start(t, "create-event", processes)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			ev := keyed(lambdatest.Event("POST", "/create_event", offices[n%len(offices)], `{"name":"other"}`), other)
			resp, err := beside.Invoke(context.WithoutCancel(ctx), ev)
			if err != nil || resp.StatusCode != http.StatusCreated || resp.Headers["X-RateLimit-Limit"] != "200" {
				t.Errorf("another key at the same address: %d %s, %v", resp.StatusCode, resp.Body, err)
			}
			<-time.After(10 * time.Millisecond) // at most a hundred requests a second
		}
		ended <- n
	}()
	windows := flood(t, instances, demand{full: windowsWanted, event: func(worker, n int) events.APIGatewayV2HTTPRequest {
		return keyed(lambdatest.Event("POST", "/create_event", offices[n%len(offices)], fmt.Sprintf(`{"id":"%d-%d","name":"n"}`, worker, n)), team)
	}})
	stop()
	others := <-ended
	total := d.wantWindows(t, windows, calls, ratelimit.Key{Identity: identityOf(team), Group: "import"}, "imports", limit, processes)
	t.Logf("%d imports with the key and %d with another one", total, others)
	if n := count(t, d.events); n != total+others {
		t.Errorf("%d events are stored after %d were admitted", n, total+others)
	}
}

// The row of a key changes under load from three addresses, while some of the eight processes
// are frozen for longer than the maximum age of rows. No window admits more than the larger of
// the old and new limits. When a change is older than the maximum age, the new limit applies.
func TestTheLimitOfAKeyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	const processes, maxAge, settled = 8, time.Second, 3 * time.Second
	d := deploy(t, dynamolocal.Endpoint(t))
	seedEntities(t, d, 3)
	keys := d.guard(t)
	d.env = append(d.env, "LIMITS_MAX_AGE="+maxAge.String())
	team := keys.create(t, "default", access.Export)
	changes := []change{{limit: 30, ended: time.Now()}}
	d.setRow(t, identityOf(team), ratelimit.Limits{Records: 30})
	instances := d.start(t, "list-entity", processes)
	event := func(n int) events.APIGatewayV2HTTPRequest {
		return keyed(lambdatest.Event("GET", "/entity?limit=1", offices[n%len(offices)], ""), team)
	}
	awake := startLoad(t, instances[:processes-2], event, 10*time.Millisecond)
	frozen := startLoad(t, instances[processes-2:], event, maxAge+500*time.Millisecond)
	for _, limit := range []int{12, 25} {
		awake.waitUntil(t, changes[len(changes)-1].ended.Add(maxAge+settled))
		for _, instance := range instances[processes-2:] {
			if err := instance.Freeze(t.Context()); err != nil {
				t.Error(err)
			}
		}
		c := change{begun: time.Now(), limit: limit}
		d.setRow(t, identityOf(team), ratelimit.Limits{Records: int64(limit)})
		c.ended = time.Now()
		changes = append(changes, c)
	}
	awake.waitUntil(t, changes[len(changes)-1].ended.Add(maxAge+settled))
	done := append(awake.stop(), frozen.stop()...)
	t.Logf("%d requests", len(done))
	checkInForce(t, done, changes, maxAge)
	checkWindows(t, outcomes(t, done), changes, maxAge)
}

// The tokens name a key that has a row, but contain a wrong secret. They do not change the
// key's counters, and each instance reads the key only once a minute.
func TestForgedTokensCountForTheirAddress(t *testing.T) {
	const address, processes, forged, limit = "198.51.100.7", 4, 1_000, 80
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, fmt.Sprint("LIMIT_IMPORTS=", limit))
	keys := d.guard(t)
	token := keys.create(t, "mine", access.Import)
	d.setRow(t, identityOf(token), ratelimit.Limits{Imports: 900, Requests: 900})
	var reads atomic.Int64
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	proxy.Observe(func(call dynamoproxy.Call, _ map[string]string) {
		if call.Table == keys.table {
			reads.Add(1)
		}
	})
	d.env = append(d.env, "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL) // overrides the earlier value
	begin := time.Now()
	windows := flood(t, d.start(t, "create-event", processes), demand{full: math.MaxInt, most: forged, event: func(int, int) events.APIGatewayV2HTTPRequest {
		_, other := secrettest.New(t, access.Key{Workspace: "mine", Scopes: access.Scopes()}, time.Now())
		forgery := strings.Split(token, "_")
		forgery[2] = strings.Split(other.Reveal(), "_")[2]
		return keyed(lambdatest.Event("POST", "/create_event", address, `{"name":"n"}`), strings.Join(forgery, "_"))
	}})
	requests, full := 0, 0
	for w, got := range windows {
		requests += got.admitted + got.refused
		if got.refused > 0 {
			full++
		}
		if got.admitted > limit || got.refused > 0 && got.admitted != limit {
			t.Errorf("window %d: %d attempts with status 401 and %d with 429, want %d", w, got.admitted, got.refused, limit)
		}
		for identity, want := range map[string]int{address: got.admitted, identityOf(token): 0} {
			if n := d.counter(t, ratelimit.Key{Identity: identity, Group: "import", Window: w}, "imports"); n != int64(want) {
				t.Errorf("window %d: the counter of %s is %d, want %d", w, identity, n, want)
			}
		}
	}
	t.Logf("%d forged tokens in %v: %d windows, %d of them full, %d reads of the key", requests, time.Since(begin), len(windows), full, reads.Load())
	if most := int64(processes * (1 + int(time.Since(begin)/access.MaxAge))); requests < forged || full == 0 || reads.Load() > most {
		t.Errorf("%d requests, %d full windows, %d reads of the key, want at most %d", requests, full, reads.Load(), most)
	}
	if n := count(t, d.events); n != 0 {
		t.Errorf("%d events are stored", n)
	}
}

func TestTheRowOfAKeyCostsNoCallAndNoUnit(t *testing.T) {
	t.Parallel()
	const requests = 10
	used := make(map[bool]map[string]dynamoproxy.Usage)
	for _, hasRow := range []bool{false, true} {
		proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
		d := deploy(t, proxy.URL)
		keys := d.guard(t)
		token := keys.create(t, "mine", access.Import, access.Export)
		name := "192.0.2.1"
		if hasRow {
			name = identityOf(token)
		}
		d.setRow(t, name, ratelimit.Limits{Imports: 100})
		for _, call := range []struct {
			function string
			event    events.APIGatewayV2HTTPRequest
		}{
			{"create-event", lambdatest.Event("POST", "/create_event", "192.0.2.1", `{"id":"e","name":"n"}`)},
			{"list-event", lambdatest.Event("GET", "/event?limit=1", "192.0.2.1", "")},
		} {
			instance := d.start(t, call.function, 1)[0]
			for range requests {
				if resp, err := instance.Invoke(t.Context(), keyed(call.event, token)); err != nil || resp.StatusCode >= 300 {
					t.Fatalf("%s: %d %s, %v", call.function, resp.StatusCode, resp.Body, err)
				}
			}
		}
		used[hasRow] = make(map[string]dynamoproxy.Usage)
		for call, usage := range proxy.Usage() {
			table, _, _ := strings.Cut(call.Table, "-")
			used[hasRow][call.Operation+" "+table] = usage
		}
	}
	t.Logf("without a row: %v", used[false])
	t.Logf("with a row:    %v", used[true])
	if len(used[true]) == 0 || fmt.Sprint(used[true]) != fmt.Sprint(used[false]) {
		t.Errorf("%d imports and lists with a row of the key used %v, without one %v", requests, used[true], used[false])
	}
}
