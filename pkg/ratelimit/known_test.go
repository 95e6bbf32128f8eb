package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// counting is a Store that counts its calls. Its calls fail while the field down is
// true.
type counting struct {
	ratelimit.Store
	calls atomic.Int64
	down  atomic.Bool
}

var errDown = errors.New("the store is down")

func (s *counting) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	s.calls.Add(1)
	if s.down.Load() {
		return ratelimit.Result{Admitted: true, Used: slices.Repeat([]int64{1 << 40}, len(costs))}, errDown // a Limiter must ignore the result
	}
	return s.Store.Charge(ctx, key, costs)
}

// from returns r from another address.
func from(address string, r ratelimit.Request) ratelimit.Request {
	r.Address = address
	return r
}

// A Limiter refuses a request without calling the store if and only if it knows that the
// request does not fit.
func TestKnownExhaustionMakesNoCall(t *testing.T) {
	const calls, local, allowed, refused = true, false, true, false
	type step struct {
		request ratelimit.Request
		allowed bool
		calls   bool          // whether the store is called
		after   time.Duration // since the previous step
	}
	tests := []struct {
		name   string
		before []ratelimit.Request // all are allowed
		steps  []step
	}{
		{"an admission that exhausts a counter is remembered", repeat(199, create("create-event")), []step{
			{create("create-event"), allowed, calls, 0},
			{create("create-event"), refused, local, 0},
			{create("create-event"), refused, local, 0},
		}},
		{"one record more than is left, then as many as are left", repeat(3, list("list-entity", 60)), []step{
			{list("list-entity", 30), refused, calls, 0},
			{list("list-entity", 30), refused, local, 0},
			{list("list-entity", 21), refused, local, 0},
			{list("list-entity", 20), allowed, calls, 0},
			{list("list-entity", 1), refused, local, 0},
		}},
		{"other admissions are not remembered", repeat(3, list("list-entity", 60)), []step{
			{list("list-entity", 21), refused, calls, 0},
		}},
		{"a request for no records fits a full counter", repeat(1, list("list-entity", 200)), []step{
			{list("list-entity", 1), refused, local, 0},
			{list("list-entity", 0), allowed, calls, 0},
		}},
		{"a rule over all routes applies to all routes", repeat(200, create("create-event")), []step{
			{create("create-entity"), refused, local, 0},
		}},
		{"a rule of one route applies to no other", repeat(200, list("list-entity", 0)), []step{
			{list("list-entity", 0), refused, local, 0},
			{list("list-event", 0), allowed, calls, 0},
		}},
		{"other addresses and classes are unaffected", repeat(200, create("create-event")), []step{
			{from("192.0.2.2", create("create-event")), allowed, calls, 0},
			{list("list-entity", 1), allowed, calls, 0},
			{general("usage"), allowed, calls, 0},
			{create("create-event"), refused, local, 0},
		}},
		{"exhaustion is remembered until the window ends", repeat(200, create("create-event")), []step{
			{create("create-event"), refused, local, time.Second - 1},
			{create("create-event"), allowed, calls, 1},
		}},
		{"a request that passes in another window changes nothing", repeat(200, create("create-event")), []step{
			{from("192.0.2.2", general("usage")), allowed, calls, time.Second},
			{create("create-event"), refused, local, -time.Second}, // the Limiter still remembers this window, and not the later window
			{create("create-event"), allowed, calls, time.Second},
		}},
		{"a refusal replaces the counters of an earlier or later window", repeat(200, create("create-event")), []step{
			{list("list-entity", 200), allowed, calls, time.Second},
			{list("list-entity", 1), refused, local, 0},
			{create("create-event"), refused, calls, -time.Second},
			{create("create-event"), refused, local, 0},
			{list("list-entity", 1), refused, calls, time.Second},
			{list("list-entity", 1), refused, local, 0},
		}},
		{"the Limiter follows a clock that jumps ahead and back", repeat(200, create("create-event")), []step{
			{list("list-entity", 200), allowed, calls, time.Hour},
			{list("list-entity", 1), refused, local, 0},
			{general("usage"), allowed, calls, -time.Hour},
			{list("list-entity", 200), allowed, calls, 0},
			{list("list-entity", 1), refused, local, 0},
		}},
		{"no request that fits is refused after the clock jumps a few windows ahead and back", repeat(200, create("create-event")), []step{
			{create("create-event"), allowed, calls, 2 * time.Second},
			{list("list-entity", 200), allowed, calls, 0},
			{list("list-entity", 200), allowed, calls, -time.Second},
			{list("list-entity", 1), refused, local, 0},
			{list("list-entity", 1), refused, calls, time.Second},
			{list("list-entity", 1), refused, local, 0},
			{list("list-entity", 1), allowed, calls, time.Second},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := &counting{Store: memory.NewCounters()}
			l, c := newLimiter(t, store, ratelimit.Limits{})
			for i, r := range tt.before {
				if d, err := l.Charge(t.Context(), r); err != nil || !d.Allowed {
					t.Fatalf("request %d before: %+v, error %v", i, d, err)
				}
			}
			for i, s := range tt.steps {
				c.t = c.t.Add(s.after)
				before := store.calls.Load()
				d, err := l.Charge(t.Context(), s.request)
				called := store.calls.Load() > before
				if err != nil || d.Allowed != s.allowed || called != s.calls {
					t.Fatalf("step %d: allowed %v, store called %v, error %v; want allowed %v, called %v", i, d.Allowed, called, err, s.allowed, s.calls)
				}
				if d.Local == called {
					t.Errorf("step %d: local %v, store called %v", i, d.Local, called)
				}
				if !d.Allowed && (d.Remaining() != 0 || len(d.Violated()) == 0) {
					t.Errorf("step %d: refusal by %v: %d remaining, want 0", i, d.Violated(), d.Remaining())
				}
			}
		})
	}
}

func TestPrecheck(t *testing.T) {
	records, requests, both := []string{"records"}, []string{"requests"}, []string{"records", "requests"}
	// After these two requests, the Limiter knows that the limit allows 20 more records.
	refused := []ratelimit.Request{list("list-entity", 180), list("list-entity", 30)}
	tests := []struct {
		name     string
		charged  []ratelimit.Request
		check    ratelimit.Request
		violated []string // nil if not refused
	}{
		{"nothing is known", nil, list("list-entity", 200), nil},
		{"as many records as were refused", refused, list("list-entity", 50), records},
		{"more records than are left", refused, list("list-entity", 21), records},
		{"as many records as are left", refused, list("list-entity", 20), nil},
		{"fewer records than are left", refused, list("list-entity", 1), nil},
		{"more records than are left, after others passed", append(refused, list("list-entity", 10), list("list-entity", 15)), list("list-entity", 11), records},
		{"as many records as are left, after others passed", append(refused, list("list-entity", 10), list("list-entity", 15)), list("list-entity", 10), nil},
		{"an unknown number", refused, list("list-entity", 0), nil},
		{"another route", refused, list("list-event", 50), records},
		{"as many records as are left, on another route", refused, list("list-event", 20), nil},
		{"another address", refused, from("192.0.2.2", list("list-entity", 50)), nil},
		{"no records are left, but a list without records would pass", []ratelimit.Request{list("list-entity", 200)}, list("list-entity", 50), nil},
		{"no records are left, and a list was refused without a call", []ratelimit.Request{list("list-entity", 200), list("list-entity", 1)}, list("list-entity", 50), records},
		{"after a refusal by the requests rule, the records counter is unknown", append(repeat(200, list("list-event", 0)), list("list-entity", 180), list("list-event", 0)), list("list-entity", 50), nil},
		{"no requests are left", repeat(200, list("list-entity", 0)), list("list-entity", 1), requests},
		{"no requests are left on another route", repeat(200, list("list-event", 0)), list("list-entity", 1), nil},
		{"no requests and no records are left", repeat(200, list("list-entity", 1)), list("list-entity", 1), both},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := &counting{Store: memory.NewCounters()}
			l, c := newLimiter(t, store, ratelimit.Limits{})
			for _, r := range tt.charged {
				if _, err := l.Charge(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			calls := store.calls.Load()
			for range 2 {
				d, refused := l.Precheck(tt.check)
				if refused != (tt.violated != nil) {
					t.Fatalf("refused %v: %+v", refused, d)
				}
				if refused && (d.Allowed || !d.Local || d.Remaining() != 0 || !slices.Equal(d.Violated(), tt.violated)) {
					t.Errorf("violated %v, want %v: %+v", d.Violated(), tt.violated, d)
				}
			}
			if store.calls.Load() != calls {
				t.Error("Precheck called the store")
			}
			c.t = c.t.Add(time.Second)
			if d, refused := l.Precheck(tt.check); refused {
				t.Errorf("refused in the next window: %+v", d)
			}
		})
	}
}

// A Limiter admits as many requests as the limit allows, no matter how many arrive at
// the same time. It calls the store once for each admitted request, and once for each
// request that was in progress when the counter reached its limit.
func TestAFloodCausesFewCalls(t *testing.T) {
	const workers = 8
	store := &counting{Store: memory.NewCounters()}
	flood(t, store, workers)
	if calls := store.calls.Load(); calls > 200+workers {
		t.Errorf("%d calls", calls)
	}
}

// flood sends far more concurrent requests than the limit allows. It checks that the
// number of requests that pass equals the limit.
func flood(t *testing.T, store ratelimit.Store, workers int) {
	t.Helper()
	const each = 500
	l, _ := newLimiter(t, store, ratelimit.Limits{})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if _, refused := l.Precheck(list("list-entity", 1)); refused {
					continue
				}
				d, err := l.Charge(t.Context(), list("list-entity", 1))
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 200 {
		t.Errorf("admitted %d", admitted.Load())
	}
}

// The result of a failed charge is ignored.
func TestAFailureIsNotRemembered(t *testing.T) {
	for _, fallback := range []ratelimit.Store{nil, memory.NewCounters()} {
		store := &counting{Store: memory.NewCounters()}
		store.down.Store(true)
		l, err := ratelimit.New(store, ratelimit.Config{Fallback: fallback, Limits: ratelimit.Limits{Requests: 1}, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the limit is 1, so the fallback refuses the second request
			if _, err := l.Charge(t.Context(), general("usage")); (err == nil) != (fallback != nil) {
				t.Fatalf("fallback %v: error %v", fallback, err)
			}
		}
		if _, refused := l.Precheck(general("usage")); refused {
			t.Errorf("fallback %v: Precheck refuses because of the failures", fallback)
		}
		store.down.Store(false)
		d, err := l.Charge(t.Context(), general("usage"))
		if err != nil || !d.Allowed || d.Local || d.Degraded != nil {
			t.Errorf("fallback %v: after the failures %+v, error %v", fallback, d, err)
		}
	}
}

func TestTheFallbackDecidesWhileTheStoreFails(t *testing.T) {
	store := &counting{Store: memory.NewCounters()}
	var limiters []*ratelimit.Limiter // two instances of one service
	for range 2 {
		l, err := ratelimit.New(store, ratelimit.Config{Fallback: memory.NewCounters(), Limits: ratelimit.Limits{Imports: 3}, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, l)
	}
	charge := func(instance int) ratelimit.Decision {
		t.Helper()
		d, err := limiters[instance].Charge(t.Context(), create("create-event"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := charge(0); !d.Allowed || d.Degraded != nil || d.Remaining() != 2 {
		t.Fatalf("with the store: %+v", d)
	}
	store.down.Store(true)
	for instance := range limiters { // each instance admits the whole limit, no matter what the store counted
		for i := range int64(3) {
			if d := charge(instance); !d.Allowed || !errors.Is(d.Degraded, errDown) || d.Remaining() != 2-i {
				t.Fatalf("instance %d, request %d without the store: %+v", instance, i, d)
			}
		}
		if d := charge(instance); d.Allowed || !errors.Is(d.Degraded, errDown) || d.Local || !slices.Equal(d.Violated(), []string{"imports"}) {
			t.Fatalf("instance %d over its limit without the store: %+v", instance, d)
		}
	}
	store.down.Store(false)
	if d := charge(1); !d.Allowed || d.Degraded != nil || d.Remaining() != 1 {
		t.Errorf("with the store again: %+v", d)
	}
}

func TestAFailingFallbackRefuses(t *testing.T) {
	store, fallback := &counting{Store: memory.NewCounters()}, &counting{Store: memory.NewCounters()}
	store.down.Store(true)
	fallback.down.Store(true)
	l, err := ratelimit.New(store, ratelimit.Config{Fallback: fallback})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Charge(t.Context(), create("create-event"))
	if d.Allowed || !errors.Is(err, errDown) || d.Remaining() != 0 || d.Counts[0].Used != d.Counts[0].Rule.Limit || d.Degraded != nil {
		t.Errorf("%+v, error %v", d, err)
	}
}

// A Limiter remembers at most 32,768 counters of a window (maxKnown). In this test,
// these are the counters of 16,384 addresses. For any further address, the Limiter calls
// the store. When the next window begins, the Limiter forgets all counters.
func TestAFullMemoryCallsTheStoreUntilTheNextWindow(t *testing.T) {
	const most = 1 << 14
	store := &counting{Store: memory.NewCounters()}
	l, c := newLimiter(t, store, ratelimit.Limits{Imports: 1})
	calls := func(i int) bool {
		t.Helper()
		before := store.calls.Load()
		if _, err := l.Charge(t.Context(), from("192.0.2.1/"+strconv.Itoa(i), create("create-event"))); err != nil {
			t.Fatal(err)
		}
		return store.calls.Load() > before
	}
	for range 2 {
		for i := range most + 1 {
			calls(i)
		}
		for _, i := range []int{0, most - 1} {
			if calls(i) {
				t.Errorf("address %d of %d: called the store", i, most)
			}
		}
		if !calls(most) {
			t.Error("the store was not called for an address that is not remembered")
		}
		c.t = c.t.Add(time.Second)
	}
}
