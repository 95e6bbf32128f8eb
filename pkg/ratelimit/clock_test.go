package ratelimit_test

import (
	"context"
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
