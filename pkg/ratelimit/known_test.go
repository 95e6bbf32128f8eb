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

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
)

// counting counts the calls of a store, and fails them while down is set.
type counting struct {
	ratelimit.Store
	calls atomic.Int64
	down  atomic.Bool
}

var errDown = errors.New("the store is down")

func (s *counting) Charge(ctx context.Context, key ratelimit.Key, rules []ratelimit.Rule, cost ratelimit.Amounts) (ratelimit.Amounts, bool, error) {
	s.calls.Add(1)
	if s.down.Load() {
		return ratelimit.Amounts{First: 1 << 40, Second: 1 << 40}, true, errDown // which means nothing
	}
	return s.Store.Charge(ctx, key, rules, cost)
}

// from is r as another address sends it.
func from(address string, r ratelimit.Request) ratelimit.Request {
	r.Address = address
	return r
}

// asking is a list of at most asked records that finds records.
func asking(route string, asked, records int64) ratelimit.Request {
	r := list(route, records)
	r.Asked = asked
	return r
}

// What an instance has seen to be exhausted it refuses without a call, and
// nothing else.
func TestKnownExhaustionMakesNoCall(t *testing.T) {
	const asks, tells, allowed, refused = true, false, true, false
	type step struct {
		request ratelimit.Request
		allowed bool
		asks    bool          // calls the store
		after   time.Duration // since the step before
	}
	tests := []struct {
		name   string
		before []ratelimit.Request // all pass
		steps  []step
	}{
		{"the admission that fills a counter tells", repeat(199, create("create-event")), []step{
			{create("create-event"), allowed, asks, 0},
			{create("create-event"), refused, tells, 0},
			{create("create-event"), refused, tells, 0},
		}},
		{"one more than is left, then what is left", repeat(3, list("list-entity", 60)), []step{
			{list("list-entity", 30), refused, asks, 0},
			{list("list-entity", 30), refused, tells, 0},
			{list("list-entity", 21), refused, tells, 0},
			{list("list-entity", 20), allowed, asks, 0},
			{list("list-entity", 1), refused, tells, 0},
		}},
		{"what was only admitted tells nothing", repeat(3, list("list-entity", 60)), []step{
			{list("list-entity", 21), refused, asks, 0},
		}},
		{"no records still fit", repeat(1, list("list-entity", 200)), []step{
			{list("list-entity", 1), refused, tells, 0},
			{list("list-entity", 0), allowed, asks, 0},
		}},
		{"a rule over all routes tells of all routes", repeat(200, create("create-event")), []step{
			{create("create-entity"), refused, tells, 0},
		}},
		{"a rule of one route tells of no other", repeat(200, list("list-entity", 0)), []step{
			{list("list-entity", 0), refused, tells, 0},
			{list("list-event", 0), allowed, asks, 0},
		}},
		{"of no other address or class", repeat(200, create("create-event")), []step{
			{from("192.0.2.2", create("create-event")), allowed, asks, 0},
			{list("list-entity", 1), allowed, asks, 0},
			{general("usage"), allowed, asks, 0},
			{create("create-event"), refused, tells, 0},
		}},
		{"until the window ends", repeat(200, create("create-event")), []step{
			{create("create-event"), refused, tells, time.Second - 1},
			{create("create-event"), allowed, asks, 1},
		}},
		{"a clock that is set back asks again", repeat(200, create("create-event")), []step{
			{from("192.0.2.2", general("usage")), allowed, asks, time.Second},
			{create("create-event"), refused, tells, -time.Second}, // nothing was learnt of the later window
			{create("create-event"), allowed, asks, time.Second},
		}},
		{"what is learnt of a later window replaces it", repeat(200, create("create-event")), []step{
			{list("list-entity", 200), allowed, asks, time.Second},
			{create("create-event"), refused, asks, -time.Second},
			{list("list-entity", 1), refused, tells, time.Second},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := &counting{Store: memstore.New()}
			l, c := newLimiter(t, store, ratelimit.Limits{})
			for i, r := range tt.before {
				if d, err := l.Charge(t.Context(), r); err != nil || !d.Allowed {
					t.Fatalf("request %d before: %+v, error %v", i, d, err)
				}
			}
			for i, s := range tt.steps {
				c.t = c.t.Add(s.after)
				calls := store.calls.Load()
				d, err := l.Charge(t.Context(), s.request)
				asked := store.calls.Load() > calls
				if err != nil || d.Allowed != s.allowed || asked != s.asks {
					t.Fatalf("step %d: allowed %v, asked the store %v, error %v; want allowed %v, asks %v", i, d.Allowed, asked, err, s.allowed, s.asks)
				}
				if d.Local == asked {
					t.Errorf("step %d: local %v, asked the store %v", i, d.Local, asked)
				}
				if !d.Allowed && (d.Remaining() != 0 || len(d.Violated()) == 0) {
					t.Errorf("step %d: a refusal by %v leaves %d", i, d.Violated(), d.Remaining())
				}
			}
		})
	}
}

func TestPrecheck(t *testing.T) {
	records, requests, both := []string{"records"}, []string{"requests"}, []string{"records", "requests"}
	tests := []struct {
		name     string
		charged  []ratelimit.Request
		check    ratelimit.Request
		violated []string // nil: not refused
	}{
		{"nothing is known", nil, asking("list-entity", 200, 0), nil},
		{"more than was refused", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, asking("list-entity", 51, 0), records},
		{"as much as was refused", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, asking("list-entity", 50, 0), records},
		{"less than was refused", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, asking("list-entity", 49, 0), nil},
		{"the fewest that was refused counts", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30), asking("list-entity", 40, 30), asking("list-entity", 60, 30)}, asking("list-entity", 40, 0), records},
		{"an unknown number", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, asking("list-entity", 0, 0), nil},
		{"a refusal of an unknown number tells nothing", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 0, 30)}, asking("list-entity", 200, 0), nil},
		{"another route", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, asking("list-event", 50, 0), nil},
		{"another address", []ratelimit.Request{list("list-entity", 180), asking("list-entity", 50, 30)}, from("192.0.2.2", asking("list-entity", 50, 0)), nil},
		{"full records alone, which a list that finds none would pass", []ratelimit.Request{list("list-entity", 200)}, asking("list-entity", 50, 0), nil},
		{"full records, refused once without a call", []ratelimit.Request{list("list-entity", 200), asking("list-entity", 50, 1)}, asking("list-entity", 50, 0), records},
		{"full requests", repeat(200, list("list-entity", 0)), asking("list-entity", 1, 0), requests},
		{"full requests of another route", repeat(200, list("list-event", 0)), asking("list-entity", 1, 0), nil},
		{"full requests and records", repeat(200, list("list-entity", 1)), asking("list-entity", 1, 0), both},
		{"the records of the request itself do not count", []ratelimit.Request{list("list-entity", 200)}, asking("list-entity", 1, 1), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLimiter(t, memstore.New(), ratelimit.Limits{}) // Immediate
			for _, r := range tt.charged {
				if _, err := l.Charge(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				d, refused := l.Precheck(tt.check)
				if refused != (tt.violated != nil) || refused && !slices.Equal(d.Violated(), tt.violated) {
					t.Fatalf("over a store in memory: refused %v by %v, want %v", refused, d.Violated(), tt.violated)
				}
			}

			store := &counting{Store: memstore.New()}
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
				t.Error("it asked the store")
			}
			c.t = c.t.Add(time.Second)
			if d, refused := l.Precheck(tt.check); refused {
				t.Errorf("refused in the next window: %+v", d)
			}
		})
	}
}

// However many requests come at once, an instance admits no more than the
// limit, and asks the store about no more than those and one each of what was
// under way when the counter filled.
func TestAFloodCostsTheLimitAndACallEach(t *testing.T) {
	const workers = 8
	store := &counting{Store: memstore.New()}
	flood(t, store, workers)
	if calls := store.calls.Load(); calls > 200+workers {
		t.Errorf("%d calls", calls)
	}
	flood(t, memstore.New(), workers)
}

// flood sends many times the limit at once, of which the limit must pass.
func flood(t *testing.T, store ratelimit.Store, workers int) {
	t.Helper()
	const each = 500
	l, _ := newLimiter(t, store, ratelimit.Limits{})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if _, refused := l.Precheck(asking("list-entity", 1, 0)); refused {
					continue
				}
				d, err := l.Charge(t.Context(), asking("list-entity", 1, 1))
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

// A store that fails tells nothing: what it reported is not taken for known.
func TestAFailureIsNotKnowledge(t *testing.T) {
	for _, fallback := range []ratelimit.Store{nil, memstore.New()} {
		store := &counting{Store: memstore.New()}
		store.down.Store(true)
		l, err := ratelimit.New(store, ratelimit.Config{Fallback: fallback, Limits: ratelimit.Limits{Requests: 1}, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second is refused also by the fallback
			if _, err := l.Charge(t.Context(), general("usage")); (err == nil) != (fallback != nil) {
				t.Fatalf("fallback %v: error %v", fallback, err)
			}
		}
		if _, refused := l.Precheck(general("usage")); refused {
			t.Errorf("fallback %v: refused by what the failures showed", fallback)
		}
		store.down.Store(false)
		d, err := l.Charge(t.Context(), general("usage"))
		if err != nil || !d.Allowed || d.Local || d.Degraded != nil {
			t.Errorf("fallback %v: after the failures %+v, error %v", fallback, d, err)
		}
	}
}

func TestTheFallbackDecidesWhatTheStoreCannot(t *testing.T) {
	store := &counting{Store: memstore.New()}
	var limiters []*ratelimit.Limiter // two instances of one service
	for range 2 {
		l, err := ratelimit.New(store, ratelimit.Config{Fallback: memstore.New(), Limits: ratelimit.Limits{Imports: 3}, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
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
	for instance := range limiters { // each has the whole limit, whatever the store counted
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

func TestAFallbackThatFailsRefuses(t *testing.T) {
	store, fallback := &counting{Store: memstore.New()}, &counting{Store: memstore.New()}
	store.down.Store(true)
	fallback.down.Store(true)
	l, err := ratelimit.New(store, ratelimit.Config{Fallback: fallback})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Charge(t.Context(), create("create-event"))
	if d.Allowed || !errors.Is(err, errDown) || d.Remaining() != 0 || d.Used.First != d.Rules[0].Limit || d.Degraded != nil {
		t.Errorf("%+v, error %v", d, err)
	}
}

// An instance remembers 32,768 exhausted keys of a window (maxKnown) and asks
// about the others; the next window starts with an empty memory.
func TestAFullMemoryAsksAndIsEmptiedByTheNextWindow(t *testing.T) {
	const most = 1 << 15
	store := &counting{Store: memstore.New()}
	l, c := newLimiter(t, store, ratelimit.Limits{Imports: 1})
	asks := func(i int) bool {
		t.Helper()
		calls := store.calls.Load()
		if _, err := l.Charge(t.Context(), from("192.0.2.1/"+strconv.Itoa(i), create("create-event"))); err != nil {
			t.Fatal(err)
		}
		return store.calls.Load() > calls
	}
	for range 2 {
		for i := range most + 1 {
			asks(i)
		}
		for _, i := range []int{0, most - 1} {
			if asks(i) {
				t.Errorf("address %d of %d: asked the store", i, most)
			}
		}
		if !asks(most) {
			t.Error("an address beyond what is remembered: did not ask the store")
		}
		c.t = c.t.Add(time.Second)
	}
}
