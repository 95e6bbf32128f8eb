package ratelimit_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
)

// The bounds of TestMemoryIsBounded, in bytes of heap after a garbage
// collection.
const (
	boundOfNothing = 1 << 20 // addresses within their limits leave nothing behind
	boundOfKnown   = 8 << 20 // maxKnown in known.go: 32,768 counters
	boundOfCounted = 450     // an address in one window of a memstore
	keptByMemstore = 1 << 15 // maxHistory in memstore.go: what it keeps beyond four windows
)

// TestMemoryIsBounded charges a million addresses through one Limiter, 50,000 a
// second. The heap must not grow with their number: after three quarters of
// them it is as large as after all. It runs a tenth of that with the race
// detector or -short.
func TestMemoryIsBounded(t *testing.T) {
	addresses := 1_000_000
	if testing.Short() || raceEnabled() {
		addresses = 100_000
	}
	perSecond := addresses / 20
	boundOfMemstore := int64((4*perSecond + keptByMemstore) * boundOfCounted)
	tests := []struct {
		name  string
		store ratelimit.Store
		limit int64 // 1: every address exhausts it
		clock bool  // moves
		bound int64
	}{
		{"a store that costs nothing, one window", admitting{}, 200, false, boundOfNothing},
		{"a store that costs nothing, one window, every address exhausted", admitting{}, 1, false, boundOfKnown},
		{"a store in memory", memstore.New(), 200, true, boundOfMemstore},
		{"a store in memory, every address exhausted", memstore.New(), 1, true, boundOfMemstore + boundOfKnown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, c := newLimiter(t, tt.store, ratelimit.Limits{Imports: tt.limit, Requests: tt.limit})
			c.t = c.t.Add(900 * time.Millisecond) // so that the heap is measured late in a window
			route := ratelimit.Route{Name: "create-event", Class: ratelimit.Import}
			before, early := heap(), int64(0)
			for i := range addresses {
				if tt.clock {
					c.t = c.t.Add(time.Second / time.Duration(perSecond))
				}
				r := ratelimit.Request{Route: route,
					Address: "2001:db8:" + strconv.FormatInt(int64(i>>16), 16) + ":" + strconv.FormatInt(int64(i&0xffff), 16) + "::/64"}
				if d, err := l.Charge(t.Context(), r); err != nil || !d.Allowed {
					t.Fatalf("address %d: allowed %v, error %v", i, d.Allowed, err)
				}
				if i+1 == addresses/4*3 {
					early = heap() - before
				}
			}
			late := heap() - before
			t.Logf("%d kB after three quarters, %d kB after %d addresses", early>>10, late>>10, addresses)
			if early > tt.bound || late > tt.bound {
				t.Errorf("the heap grew by %d and %d bytes, the bound is %d", early, late, tt.bound)
			}
			if late > early+boundOfNothing {
				t.Errorf("the heap still grows: %d bytes after three quarters, %d in the end", early, late)
			}
			runtime.KeepAlive(l)
		})
	}
}

// What is known of a key grows with the routes that it was refused on: here
// every export route of the service, each with the records it asked for.
func TestMemoryOfRefusedExportsIsBounded(t *testing.T) {
	const bound = 24 << 20
	l, _ := newLimiter(t, admitting{}, ratelimit.Limits{Records: 1})
	before := heap()
	for i := range 50_000 {
		for _, route := range []string{"list-entity", "get-entity", "list-event", "get-event"} {
			for _, records := range []int64{1, 2} { // fills the counter, is refused
				r := asking(route, records, records)
				r.Address = "2001:db8:" + strconv.FormatInt(int64(i>>16), 16) + ":" + strconv.FormatInt(int64(i&0xffff), 16) + "::/64"
				if _, err := l.Charge(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	grown := heap() - before
	t.Logf("%d kB", grown>>10)
	if grown > bound {
		t.Errorf("the heap grew by %d bytes, the bound is %d", grown, bound)
	}
	runtime.KeepAlive(l)
}

// admitting admits everything, and shows counters that hold just this charge.
type admitting struct{}

func (admitting) Charge(_ context.Context, _ ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	result := ratelimit.Result{Admitted: true}
	for _, c := range costs {
		result.Used = append(result.Used, c.Amount)
	}
	return result, nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
