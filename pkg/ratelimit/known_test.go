package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

type counting struct {
	ratelimit.Store
	calls atomic.Int64
	down  atomic.Bool
}

var errDown = errors.New("the store is down")

func (s *counting) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	s.calls.Add(1)
	if s.down.Load() {
		return ratelimit.Result{Admitted: true, Used: slices.Repeat([]int64{1 << 40}, len(costs))}, errDown // the Limiter must ignore the result
	}
	return s.Store.Charge(ctx, key, costs)
}

func from(address string, r ratelimit.Request) ratelimit.Request {
	r.Subject.Identity = address
	return r
}

// TestSimulation checks the same with random requests, but its clocks do not jump as far.
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
		before []ratelimit.Request // all allowed
		steps  []step
	}{
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

func TestAFailureIsNotRemembered(t *testing.T) {
	for _, fallback := range []ratelimit.Store{nil, memory.NewCounters()} {
		store := &counting{Store: memory.NewCounters()}
		store.down.Store(true)
		l := open(t, store, ratelimit.Config{Fallback: fallback, Limits: ratelimit.Limits{Requests: 1}, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
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

func TestARequestIsRefusedWithNothingRemainingIfNoStoreAnswers(t *testing.T) {
	for _, fallback := range []ratelimit.Store{nil, brokenStore{}} {
		l := open(t, brokenStore{}, ratelimit.Config{Fallback: fallback})
		d, err := l.Charge(t.Context(), list("list-entity", 1))
		if d.Allowed || !errors.Is(err, errUnreachable) || d.Remaining() != 0 || d.Degraded != nil {
			t.Errorf("fallback %v: %+v, error %v", fallback, d, err)
		}
		for _, c := range d.Counts {
			if c.Used != c.Rule.Limit {
				t.Errorf("fallback %v: %+v is not exhausted", fallback, c)
			}
		}
	}
}

// Each address here has two counters, so the 32,768 counters of maxKnown cover 16,384 addresses.
// For any other address, the Limiter calls the store. In the next window, it starts with no counters.
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
