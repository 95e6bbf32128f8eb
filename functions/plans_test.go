package functions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
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

const planProcesses = 8

// planned deploys a service with a plan, and returns the token of a key that has it.
func planned(t *testing.T, proxy *dynamoproxy.Proxy, limits ratelimit.Limits) (deployment, string) {
	t.Helper()
	d := deploy(t, proxy.URL)
	keys := d.guard(t)
	d.setRow(t, "plan:pro", limits)
	return d, keys.createLike(t, access.Key{Workspace: "mine", Plan: "pro", Scopes: []access.Scope{access.Import, access.Export}})
}

// fromThree returns imports with a key from three addresses.
func fromThree(token string) func(worker, n int) events.APIGatewayV2HTTPRequest {
	return func(worker, n int) events.APIGatewayV2HTTPRequest {
		return keyed(lambdatest.Event("POST", "/create_event", fmt.Sprintf("198.51.100.%d", worker%3+1), fmt.Sprintf(`{"id":"%d.%d","name":"n"}`, worker, n)), token)
	}
}

// numberOf returns a number from the environment, for longer runs by hand.
func numberOf(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Eight processes, three addresses, one key: every full window admits exactly what the plan allows. Each
// admitted request is one call and one unit, except that an instance may meet a floor that another has
// raised, and that each makes one call for a refusal in a window.
func TestAPlanIsExactOverInstancesAndAddresses(t *testing.T) {
	t.Parallel()
	limit, full := numberOf(t, "PLAN_LIMIT", 40), numberOf(t, "PLAN_WINDOWS", 4)
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Imports: int64(limit), Requests: 900})
	instances := d.start(t, "create-event", planProcesses)
	charge := dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}
	before := proxy.Usage()[charge]
	windows := flood(t, instances, demand{full: full, event: fromThree(token)})
	after := proxy.Usage()[charge]
	admitted, refused, filled := 0, 0, 0
	for w, got := range windows {
		admitted, refused = admitted+got.admitted, refused+got.refused
		if got.refused > 0 {
			filled++
		}
		if got.admitted > limit || got.refused > 0 && got.admitted != limit {
			t.Errorf("window %d: %d admitted, %d refused", w, got.admitted, got.refused)
		}
	}
	calls, units := after.Calls-before.Calls, after.Units-before.Units
	t.Logf("%d admitted, %d refused, %d full windows of %d; %d calls and %v units, %.3f calls for each admitted request", admitted, refused, filled, limit, calls, units, float64(calls)/float64(admitted))
	if most := admitted + admitted/20 + planProcesses*len(windows); calls > most || units > float64(most) {
		t.Errorf("%d calls and %v units for %d admitted requests in %d windows, want at most %d", calls, units, admitted, len(windows), most)
	}
}

// One instance and a key: one call and one unit for each request.
func TestAChargeOfAKeyIsOneCall(t *testing.T) {
	t.Parallel()
	const requests = 300
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Imports: 900, Requests: 900})
	instance := d.start(t, "create-event", 1)[0]
	charge := dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}
	before := proxy.Usage()[charge]
	for n := range requests {
		invoke(t, instance, fromThree(token)(0, n), http.StatusCreated)
		if n%100 == 99 {
			<-time.After(3 * time.Second) // so that there is something to remove
		}
	}
	after := proxy.Usage()[charge]
	if calls, units := after.Calls-before.Calls, after.Units-before.Units; calls != requests || units != requests {
		t.Errorf("%d requests took %d calls and %v units", requests, calls, units)
	}
}

// While a process is killed or stopped every second, no window admits more than the plan allows.
func TestAPlanIsNeverExceededWhileProcessesAreKilledAndStopped(t *testing.T) {
	t.Parallel()
	limit, seconds := numberOf(t, "PLAN_LIMIT", 40), numberOf(t, "PLAN_SECONDS", 6)
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Imports: int64(limit), Requests: 900})
	binary := lambdatest.Build(t, "create-event")
	c := &chaos{t: t, start: func() (*lambdatest.Instance, error) { return lambdatest.Run(binary, d.env...) }, slots: make([]*lambdatest.Instance, planProcesses), windows: make(map[ratelimit.Window]outcome)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range planProcesses {
		wg.Go(func() { c.work(ctx, worker, fromThree(token)) })
	}
	wg.Go(func() { c.disturb(ctx) })
	wg.Wait()
	for _, inst := range c.slots {
		if inst != nil {
			inst.Stop()
		}
	}
	admitted, full := 0, 0
	for w, got := range c.windows {
		admitted += got.admitted
		if got.admitted > limit {
			t.Errorf("window %d: %d admitted", w, got.admitted)
		}
		if got.admitted == limit {
			full++
		}
	}
	t.Logf("%d admitted, %d windows, %d of them at the limit of %d; %d processes killed, %d stopped, %d requests without a result", admitted, len(c.windows), full, limit, c.kills, c.stops, c.unknown)
	if c.kills == 0 || c.stops == 0 || admitted == 0 {
		t.Error("nothing happened")
	}
}

type chaos struct {
	t     *testing.T
	start func() (*lambdatest.Instance, error)

	mu                    sync.Mutex
	slots                 []*lambdatest.Instance
	windows               map[ratelimit.Window]outcome
	noted                 func(events.APIGatewayV2HTTPResponse) // takes the place of windows, if it is not nil
	kills, stops, unknown int
}

func (c *chaos) work(ctx context.Context, worker int, event func(worker, n int) events.APIGatewayV2HTTPRequest) {
	for n := 0; ctx.Err() == nil; n++ {
		c.mu.Lock()
		inst := c.slots[worker]
		c.mu.Unlock()
		if inst == nil {
			var err error
			if inst, err = c.start(); err != nil {
				c.t.Error(err)
				return
			}
			c.mu.Lock()
			c.slots[worker] = inst
			c.mu.Unlock()
		}
		resp, err := inst.Invoke(context.WithoutCancel(ctx), event(worker, n))
		c.note(worker, inst, resp, err)
		rest(resp.StatusCode)
	}
}

func (c *chaos) note(worker int, inst *lambdatest.Instance, resp events.APIGatewayV2HTTPResponse, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || resp.StatusCode >= http.StatusInternalServerError {
		if c.unknown++; err != nil {
			inst.Kill()
			c.slots[worker] = nil
		}
		return
	}
	if c.noted != nil {
		c.noted(resp)
		return
	}
	reset, err := strconv.ParseInt(resp.Headers["X-RateLimit-Reset"], 10, 64)
	if err != nil {
		c.t.Errorf("%d %s: %v", resp.StatusCode, resp.Body, err)
		return
	}
	w := c.windows[ratelimit.Window(reset-1)]
	if resp.StatusCode == http.StatusTooManyRequests {
		w.refused++
	} else {
		w.admitted++
	}
	c.windows[ratelimit.Window(reset-1)] = w
}

// disturb kills a process every second, and stops another one for a while.
func (c *chaos) disturb(ctx context.Context) {
	pick := func() *lambdatest.Instance {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.slots[rand.IntN(len(c.slots))]
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if victim := pick(); victim != nil && victim.Signal(syscall.SIGKILL) == nil {
			c.kills++
		}
		if sleeper := pick(); sleeper != nil && sleeper.Signal(syscall.SIGSTOP) == nil {
			c.stops++
			time.AfterFunc(time.Duration(rand.IntN(3000))*time.Millisecond, func() { sleeper.Signal(syscall.SIGCONT) }) //nolint:errcheck // it may have been killed
		}
	}
}

// A plan that changes under load is in force within the maximum age of rows. Until then a window admits at
// most the larger limit.
func TestAPlanChangesUnderLoad(t *testing.T) {
	t.Parallel()
	const maxAge = time.Second
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Requests: 4})
	d.env = append(d.env, "LIMITS_MAX_AGE="+maxAge.String())
	instances := d.start(t, "list-event", planProcesses)
	l := startLoad(t, instances, func(n int) events.APIGatewayV2HTTPRequest {
		return keyed(lambdatest.Event("GET", "/event", fmt.Sprintf("198.51.100.%d", n%3+1), ""), token)
	}, 10*time.Millisecond)
	changes := []change{{limit: 4, ended: time.Now()}} // not before all processes have started, which takes seconds on a slow machine
	for _, limit := range []int{2, 3} {
		l.waitForFull(t, changes[len(changes)-1].ended.Add(maxAge+slow))
		c := change{begun: time.Now(), limit: limit}
		d.setRow(t, "plan:pro", ratelimit.Limits{Requests: int64(limit)})
		c.ended = time.Now()
		changes = append(changes, c)
	}
	l.waitForFull(t, changes[len(changes)-1].ended.Add(maxAge+slow))
	done := l.stop()
	checkInForce(t, done, changes, maxAge)
	checkWindows(t, outcomes(t, done), changes, maxAge)
}

// The owner of a key with a plan sends 20,000 tokens with unknown ids beside it. What the table of keys
// is asked for is bounded, and the key's requests never exceed the plan.
func TestForgedTokensBesideAKeyOfAPlan(t *testing.T) {
	t.Parallel()
	forgeries, limit := numberOf(t, "FORGED_TOKENS", 600), 40
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Imports: int64(limit), Requests: 900})
	instance := d.start(t, "create-event", 1)[0]
	windows, statuses := make(map[string]int), make(map[int]int)
	begun := time.Now()
	for n := range forgeries {
		_, forged := secrettest.New(t, access.Key{Workspace: "mine", Scopes: access.Scopes()}, time.Now())
		resp, err := instance.Invoke(t.Context(), keyed(lambdatest.Event("POST", "/create_event", "198.51.100.1", `{"name":"n"}`), forged.Reveal()))
		if err != nil {
			t.Fatal(err)
		}
		statuses[resp.StatusCode]++
		if resp, err = instance.Invoke(t.Context(), fromThree(token)(0, n)); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusCreated {
			windows[resp.Headers["X-RateLimit-Reset"]]++
		} else if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the key: %d %s", resp.StatusCode, resp.Body)
		}
	}
	took := time.Since(begun)
	n := 0
	for call, usage := range proxy.Usage() {
		if strings.HasPrefix(call.Table, "KeysTable") {
			n += usage.Calls
		}
	}
	for reset, admitted := range windows {
		if admitted > limit {
			t.Errorf("%d admitted in the window that ends at %s", admitted, reset)
		}
	}
	most := (int(took/time.Second)+2)*(10+200) + int(took/(45*time.Second)) + 1 // guesses, and requests of the address
	t.Logf("%d forged tokens in %v: %v; %d reads of keys, at most %d are possible; the key was admitted in %d windows", forgeries, took, statuses, n, most, len(windows))
	if n > most || statuses[http.StatusUnauthorized]+statuses[http.StatusTooManyRequests] != forgeries {
		t.Errorf("%d reads of keys, statuses %v", n, statuses)
	}
}
