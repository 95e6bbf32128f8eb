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

type jumping struct {
	ratelimit.Store
	clock *clock
	jump  time.Duration
}

func (s jumping) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	result, err := s.Store.Charge(ctx, key, costs)
	s.clock.t = s.clock.t.Add(s.jump)
	return result, err
}

// TestSimulation does not cover this, because its clocks jump by at most two seconds.
func TestAFarJumpDuringACharge(t *testing.T) {
	for _, jump := range []time.Duration{2 * time.Hour, 10 * time.Second, -60 * time.Second} {
		c := &clock{start}
		l := open(t, jumping{memory.NewCounters(), c, jump}, ratelimit.Config{Now: c.now})
		d, err := l.Charge(t.Context(), create("create-event"))
		if want := ratelimit.WindowAt(c.t); err != nil || !d.Allowed || d.Window != want {
			t.Errorf("a jump of %v: %+v, error %v; want window %d", jump, d, err, want)
		}
	}
}

// In each window, exports ask for 200 records, then 199, and so on down to 1. However many records
// are left, only one export is read and then refused.
func TestAtMostOneExportPerWindowIsReadAndRefused(t *testing.T) {
	for _, left := range []int64{0, 1, 20, 150} {
		t.Run(fmt.Sprintf("%d records are left", left), func(t *testing.T) {
			store := memory.NewCounters()
			l, c := newLimiter(t, store, ratelimit.Limits{})
			spender := open(t, store, ratelimit.Config{Now: c.now})
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

// header looks up name in exactly this case. h.Values would convert it to its canonical form.
func header(h http.Header, name string) []string { return h[name] }

// A store may refuse a cost above the limit without returning counters. The Limiter still
// remembers the refusal.
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

type secretive struct{}

func (secretive) Charge(context.Context, ratelimit.Key, []ratelimit.Cost) (ratelimit.Result, error) {
	return ratelimit.Result{}, nil
}
