package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/ratelimit"
)

// rows opens the store that "sluice limits" uses.
func (d deployment) rows(t *testing.T) *dynamo.Limits {
	t.Helper()
	s, err := dynamo.NewLimits(dynamolocal.Client(t), d.limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d deployment) setRow(t *testing.T, name string, limits ratelimit.Limits) {
	t.Helper()
	r, err := ratelimit.ParseRowName(name, ratelimit.DefaultIPv6Prefix)
	if err != nil {
		t.Fatal(err)
	}
	r.Action, r.Records, r.Imports, r.Requests, r.Quotas = limits.Action, limits.Records, limits.Imports, limits.Requests, limits.Quotas
	if r, err = ratelimit.NewRow(r, time.Now()); err == nil {
		err = d.rows(t).Put(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type exchange struct {
	begun     time.Time
	window    ratelimit.Window
	status    int
	limit     string // X-RateLimit-Limit
	remaining string
}

type load struct {
	mu    sync.Mutex
	done  []exchange
	added chan struct{}     // receives a value after an exchange is added to done
	stop  func() []exchange // ends the load and returns all exchanges
}

// waitUntil waits until a request that started later than begun is complete.
func (l *load) waitUntil(t *testing.T, begun time.Time) {
	t.Helper()
	l.wait(t, func() bool { return len(l.done) > 0 && l.done[len(l.done)-1].begun.After(begun) })
}

// waitForFull waits until a window that begins at or after begin has refused a request and is over.
func (l *load) waitForFull(t *testing.T, begin time.Time) {
	t.Helper()
	l.wait(t, func() bool {
		return slices.ContainsFunc(l.done, func(e exchange) bool {
			window := time.Unix(int64(e.window), 0)
			return e.status == http.StatusTooManyRequests && !window.Before(begin) && time.Since(window) > time.Second
		})
	})
}

func (l *load) wait(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		l.mu.Lock()
		ended := done()
		l.mu.Unlock()
		if ended {
			return
		}
		select {
		case <-l.added:
		case <-time.After(10 * time.Second):
			t.Fatal("the load has ended")
		}
	}
	t.Fatal("a minute was not enough")
}

// nowhere makes startLoad send GET /nowhere from an address.
func nowhere(address string) func(int) events.APIGatewayV2HTTPRequest {
	return func(int) events.APIGatewayV2HTTPRequest { return lambdatest.Event("GET", "/nowhere", address, "") }
}

// startLoad invokes each instance repeatedly, with a pause after each request. event returns
// the n-th request to an instance.
func startLoad(t *testing.T, instances []*lambdatest.Instance, event func(n int) events.APIGatewayV2HTTPRequest, pause time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{added: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	for _, instance := range instances {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				begun := time.Now()
				resp, err := instance.Invoke(context.WithoutCancel(ctx), event(n))
				if err != nil {
					t.Error(err)
					return
				}
				reset, err := strconv.ParseInt(resp.Headers["X-RateLimit-Reset"], 10, 64)
				if err != nil {
					t.Errorf("%d, X-RateLimit-Reset: %v", resp.StatusCode, err)
				}
				l.mu.Lock()
				l.done = append(l.done, exchange{begun, ratelimit.Window(reset - 1), resp.StatusCode, resp.Headers["X-RateLimit-Limit"], resp.Headers["X-RateLimit-Remaining"]})
				l.mu.Unlock()
				select {
				case l.added <- struct{}{}:
				default: // added has a value already
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	l.stop = func() []exchange {
		cancel()
		wg.Wait()
		return l.done
	}
	return l
}

func outcomes(t *testing.T, done []exchange) map[ratelimit.Window]outcome {
	t.Helper()
	windows := make(map[ratelimit.Window]outcome)
	for _, e := range done {
		w := windows[e.window]
		switch e.status {
		case http.StatusNotFound, http.StatusOK:
			w.admitted++
		case http.StatusTooManyRequests:
			w.refused++
		default:
			t.Errorf("window %d: status %d", e.window, e.status)
		}
		windows[e.window] = w
	}
	return windows
}

type change struct {
	begun, ended time.Time
	limit        int // the new limit
}

// slow is the longest time from the start of a request to its charge.
const slow = time.Second

// Rows are added, changed and removed while eight processes receive requests from one address.
// Two of the processes are frozen for longer than the maximum age of rows at each change. Each
// window with a refusal admits exactly the current limit or, during a change, at most the larger
// of the old and new limits.
func TestLimitsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const address, processes, maxAge = "198.51.100.7", 8, time.Second
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "LIMITS_MAX_AGE="+maxAge.String(), "LIMIT_REQUESTS=30")
	begin := time.Now()
	instances := d.start(t, "not-found", processes)
	l := startLoad(t, instances[:processes-2], nowhere(address), 10*time.Millisecond)
	frozen := startLoad(t, instances[processes-2:], nowhere(address), maxAge+500*time.Millisecond)
	changes := []change{{limit: 30, ended: begin}}
	apply := func(limit int, do func()) {
		l.waitForFull(t, changes[len(changes)-1].ended.Add(maxAge+slow))
		for _, instance := range instances[processes-2:] {
			if err := instance.Freeze(t.Context()); err != nil {
				t.Error(err)
			}
		}
		c := change{begun: time.Now(), limit: limit}
		do()
		c.ended = time.Now()
		changes = append(changes, c)
	}
	apply(10, func() { d.setRow(t, "198.51.100.0/24", ratelimit.Limits{Requests: 10}) })
	apply(20, func() { d.setRow(t, "198.51.100.7/32", ratelimit.Limits{Requests: 20}) }) // a longer prefix takes precedence
	apply(15, func() { d.setRow(t, "198.51.100.7/32", ratelimit.Limits{Requests: 15}) })
	apply(10, func() {
		if err := d.rows(t).Remove(t.Context(), "198.51.100.7/32"); err != nil {
			t.Error(err)
		}
	})
	l.waitForFull(t, changes[len(changes)-1].ended.Add(maxAge+slow))
	done := append(l.stop(), frozen.stop()...)

	checkInForce(t, done, changes, maxAge)
	checkWindows(t, outcomes(t, done), changes, maxAge)
	usage := proxy.Usage()
	charges, reads := usage[dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}].Calls, usage[dynamoproxy.Call{Operation: "Scan", Table: d.limits}].Calls
	t.Logf("%d requests, %d charges, %d reads of the rows in %v", len(done), charges, reads, time.Since(begin))
	if most := processes * (2 + int(time.Since(begin)/(maxAge*3/4))); reads > most || charges > len(done)+processes || len(usage) != 3 { // the third kind of call gets the service's id during init
		t.Errorf("%d requests made the calls %v; at most %d reads of the rows are needed", len(done), usage, most)
	}
}

// checkInForce checks that each request that began at least maxAge after a change, and more
// than a second before the next one, got the new limit.
func checkInForce(t *testing.T, done []exchange, changes []change, maxAge time.Duration) {
	t.Helper()
	for i, c := range changes {
		checked := 0
		for _, e := range done {
			if e.begun.Before(c.ended.Add(maxAge)) || i+1 < len(changes) && !e.begun.Before(changes[i+1].begun.Add(-time.Second)) {
				continue
			}
			checked++
			if e.limit != strconv.Itoa(c.limit) {
				t.Errorf("%v after the change to %d, a response shows the limit %s", e.begun.Sub(c.ended), c.limit, e.limit)
			}
		}
		if checked == 0 {
			t.Errorf("no request began when the limit of %d was in force", c.limit)
		}
	}
}

// checkWindows checks that each window with a refusal admitted exactly the limit or, during a
// change, at most the larger of the old and new limits.
func checkWindows(t *testing.T, windows map[ratelimit.Window]outcome, changes []change, maxAge time.Duration) {
	t.Helper()
	full := make([]int, len(changes))
	for w, got := range windows {
		begin := time.Unix(int64(w), 0)
		i := len(changes) - 1
		for i > 0 && !begin.Add(time.Second).After(changes[i].begun) {
			i--
		}
		limit := changes[i].limit
		if i > 0 && begin.Before(changes[i].ended.Add(maxAge+slow)) {
			if most := max(limit, changes[i-1].limit); got.admitted > most {
				t.Errorf("window %d, while the limit changes from %d to %d: %d admitted", w, changes[i-1].limit, limit, got.admitted)
			}
			continue
		}
		if got.admitted > limit || got.refused > 0 && got.admitted != limit {
			t.Errorf("window %d: %d admitted with %d refused, want %d", w, got.admitted, got.refused, limit)
		}
		if got.refused > 0 {
			full[i]++
		}
	}
	t.Logf("full windows: %v", full)
	if slices.Contains(full, 0) {
		t.Errorf("the %d limits had %v full windows, want at least one each", len(changes), full)
	}
}

// Every request is admitted, and the metric Observed counts the requests above the limit.
func TestObserveCountsWhatALimiterWouldRefuse(t *testing.T) {
	t.Parallel()
	const address, processes, limit = "198.51.100.7", 8, 25
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, "SERVICE_NAME=sluice-test")
	d.setRow(t, address+"/32", ratelimit.Limits{Action: ratelimit.ActionObserve, Requests: limit})
	instances := d.start(t, "not-found", processes)
	l := startLoad(t, instances, nowhere(address), 10*time.Millisecond)
	l.waitUntil(t, time.Now().Add(3*time.Second))
	done := l.stop()
	want := 0
	for w, got := range outcomes(t, done) {
		if got.refused > 0 {
			t.Errorf("window %d: %d refused", w, got.refused)
		}
		want += max(0, got.admitted-limit)
	}
	observed, refused := 0, 0
	for _, instance := range instances {
		instance.Kill()
		for line := range strings.Lines(instance.Log()) {
			var members struct{ Observed, Refused int }
			if err := json.Unmarshal([]byte(line), &members); err != nil {
				t.Error(err)
			}
			observed += members.Observed
			refused += members.Refused
		}
	}
	t.Logf("%d requests, %d of them above the limit", len(done), want)
	if observed != want || want == 0 || refused != 0 {
		t.Errorf("Observed is %d and Refused is %d, want %d (more than 0) and 0 for %d requests", observed, refused, want, len(done))
	}
}

// The last known rows apply, or else the defaults. The log says which apply. No request fails.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const maxAge = time.Second
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "LIMITS_MAX_AGE="+maxAge.String(), "SERVICE_NAME=sluice-test")
	d.setRow(t, "192.0.2.0/24", ratelimit.Limits{Requests: 70})
	known := d.start(t, "not-found", 1)[0]
	proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
		if call.Table == d.limits {
			return dynamoproxy.Fault{Error: dynamoproxy.Throttled, Skip: true}
		}
		return dynamoproxy.Fault{}
	})
	unknown := d.start(t, "not-found", 1)[0]
	for _, tt := range []struct {
		instance      *lambdatest.Instance
		limit, metric string
	}{{known, "70", "LimitsStale"}, {unknown, "200", "LimitsUnread"}} {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for tries := 0; tries < 200 && !strings.Contains(tt.instance.Log(), `"`+tt.metric+`":`); tries++ { // LimitsStale appears only after the rows have expired
			resp := invoke(t, tt.instance, lambdatest.Event("GET", "/nowhere", "192.0.2.1", ""), http.StatusNotFound)
			if got := resp.Headers["X-RateLimit-Limit"]; got != tt.limit {
				t.Errorf("the limit is %s, want %s", got, tt.limit)
			}
			<-again.C
		}
		tt.instance.Kill()
		if log := tt.instance.Log(); !slices.Contains(metrics(t, log), tt.metric) || !strings.Contains(log, `"limits_error":"`) {
			t.Errorf("no metric %s: %s", tt.metric, log)
		}
	}
}
