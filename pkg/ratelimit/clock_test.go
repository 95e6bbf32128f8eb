package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// jumps are the durations by which clocks jump, or for which a process is stopped.
var jumps = []time.Duration{2 * time.Hour, -60 * time.Second, 10 * time.Second, time.Second, -time.Second}

// jumping is a Store that can make the clock jump during a charge.
type jumping struct {
	ratelimit.Store
	clock *clock
	jump  time.Duration // duration by which the clock jumps during the next charge
	calls int
}

func (s *jumping) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	s.calls++
	result, err := s.Store.Charge(ctx, key, costs)
	s.clock.t = s.clock.t.Add(s.jump)
	s.jump = 0
	return result, err
}

func newJumping(t *testing.T) (*ratelimit.Limiter, *jumping) {
	t.Helper()
	store := &jumping{Store: table{}, clock: &clock{start}}
	l, err := ratelimit.New(store, ratelimit.Config{Limits: ratelimit.Limits{Imports: 3, Requests: 3}, Now: store.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	return l, store
}

// table is a Store that keeps every window even if the clock jumps, as a DynamoDB
// table does. It is not safe for concurrent use.
type table map[ratelimit.Key]*memory.Counters

func (t table) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	if t[key] == nil {
		t[key] = memory.NewCounters()
	}
	return t[key].Charge(ctx, key, costs)
}

// flood calls Limiter.Charge until a request is refused. It returns the number of
// requests that passed.
func (s *jumping) flood(t *testing.T, l *ratelimit.Limiter) (admitted int) {
	t.Helper()
	for range 100 {
		d, err := l.Charge(t.Context(), create("create-event"))
		if err != nil {
			t.Fatal(err)
		}
		if current := ratelimit.WindowAt(s.clock.t); d.Window != current {
			t.Errorf("the window of the decision is %d, the clock shows %d: %+v", d.Window, current, d)
		}
		if !d.Allowed {
			return admitted
		}
		admitted++
	}
	t.Fatal("nothing was refused")
	return 0
}

// After the clock jumps, requests are counted in the new current window, and pass if
// they fit into this window. When the window is full, the Limiter remembers that.
func TestAClockThatJumpsBetweenRequests(t *testing.T) {
	for _, jump := range jumps {
		t.Run(jump.String(), func(t *testing.T) {
			l, s := newJumping(t)
			for i, offset := range []time.Duration{0, jump, -jump, jump} {
				s.clock.t = s.clock.t.Add(offset)
				want := 0 // after the second jump, the clock returns to windows that are already full
				if i < 2 {
					want = 3
				}
				if n := s.flood(t, l); n != want {
					t.Errorf("after jump %d: %d passed, want %d", i, n, want)
				}
				calls := s.calls
				if n := s.flood(t, l); n != 0 || s.calls != calls {
					t.Errorf("after jump %d: %d passed with %d calls, although the window is known to be full", i, n, s.calls-calls)
				}
			}
		})
	}
}

// A request that is refused while the clock jumps, or while the process is
// stopped, is charged again in the new current window.
func TestAClockThatJumpsDuringACharge(t *testing.T) {
	for _, jump := range jumps {
		t.Run(jump.String(), func(t *testing.T) {
			l, s := newJumping(t)
			other, err := ratelimit.New(s.Store, ratelimit.Config{Limits: ratelimit.Limits{Imports: 3, Requests: 3}, Now: s.clock.now})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // charges that l does not know about
				if d, err := other.Charge(t.Context(), create("create-event")); err != nil || !d.Allowed {
					t.Fatalf("%+v, error %v", d, err)
				}
			}
			s.jump = jump
			d, err := l.Charge(t.Context(), create("create-event"))
			if current := ratelimit.WindowAt(s.clock.t); err != nil || !d.Allowed || d.Window != current || d.Remaining() != 2 {
				t.Errorf("window %d is empty, but the decision is %+v, error %v", current, d, err)
			}
			if n := s.flood(t, l); n != 2 {
				t.Errorf("%d more passed, want 2", n)
			}
		})
	}
}

// An admitted request is not charged again when the clock jumps. Its decision shows
// the current window instead of the window of the charge.
func TestAnAdmissionDuringAJumpShowsTheCurrentWindow(t *testing.T) {
	for _, jump := range jumps {
		l, s := newJumping(t)
		s.jump = jump
		d, err := l.Charge(t.Context(), create("create-event"))
		want := ratelimit.WindowAt(s.clock.t)
		if jump == time.Second { // too short to count as a jump
			want--
		}
		if err != nil || !d.Allowed || d.Window != want || s.calls != 1 {
			t.Errorf("jump of %v: %+v after %d calls, error %v; want window %d", jump, d, s.calls, err, want)
		}
		if n := s.flood(t, l); n != 3 {
			t.Errorf("jump of %v: %d passed in the current window, want 3", jump, n)
		}
	}
}

// A client that has exceeded its limit sends exports that ask for fewer and fewer records.
// In each window, only one of these exports is read and then refused, no matter how many
// records the limit still allows.
func TestAtMostOneExportPerWindowIsReadAndRefused(t *testing.T) {
	for _, left := range []int64{0, 1, 20, 150} {
		t.Run(fmt.Sprintf("%d records are left", left), func(t *testing.T) {
			store := memory.NewCounters()
			l, c := newLimiter(t, store, ratelimit.Limits{})
			spender, err := ratelimit.New(store, ratelimit.Config{Now: c.now})
			if err != nil {
				t.Fatal(err)
			}
			for window := range 3 {
				if d, err := spender.Charge(t.Context(), list("list-event", 200-left)); err != nil || !d.Allowed {
					t.Fatalf("%+v, error %v", d, err)
				}
				passed, runs := 0, 0
				for n := int64(200); n >= 1; n-- {
					d, read, err := export(t, l, n, n)
					if err != nil {
						t.Fatal(err)
					}
					if read {
						runs++
					}
					if d.Allowed {
						passed++
					}
				}
				if wantPassed := min(int(left), 1); passed != wantPassed || runs != passed+1 {
					t.Errorf("window %d: %d requests passed and %d were read, want %d and %d", window, passed, runs, wantPassed, wantPassed+1)
				}
				c.t = c.t.Add(time.Second)
			}
		})
	}
}

// header returns the values of the header called name. It does not convert the name to
// its canonical form.
func header(h http.Header, name string) []string { return h[name] }

// A store may refuse a cost above the limit without returning the counters. The
// decision then shows no counters, and the Limiter remembers the refusal.
func TestACostAboveTheLimitIsRefusedWithoutRemainders(t *testing.T) {
	store := &counting{Store: secretive{}}
	l, _ := newLimiter(t, store, ratelimit.Limits{Records: 5})
	for range 2 {
		d, err := l.Charge(t.Context(), list("list-entity", 6))
		h := make(http.Header)
		d.SetHeaders(h)
		if err != nil || d.Allowed || !slices.Equal(d.Violated(), []string{"records"}) || header(h, "RateLimit") != nil || !slices.Equal(header(h, "X-RateLimit-Remaining"), []string{"0"}) {
			t.Errorf("%+v, error %v, headers %v", d, err, h)
		}
	}
	if _, refused := l.Precheck(list("list-entity", 6)); !refused || store.calls.Load() != 1 {
		t.Errorf("Precheck: refused %v, after %d calls to the store", refused, store.calls.Load())
	}
	if _, refused := l.Precheck(list("list-entity", 5)); refused {
		t.Error("Precheck refuses a page within the limit")
	}
}

// secretive is a Store that refuses every charge and returns no counters.
type secretive struct{}

func (secretive) Charge(context.Context, ratelimit.Key, []ratelimit.Cost) (ratelimit.Result, error) {
	return ratelimit.Result{}, nil
}
