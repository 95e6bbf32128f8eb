package ratelimit_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// The bounds in TestMemoryIsBounded are in bytes of heap after a garbage collection.
const (
	boundOfNothing = 1 << 20 // addresses within their limits should take no memory
	boundOfKnown   = 8 << 20 // for the 32,768 counters of maxKnown
	boundOfCounted = 450     // per address and window in an in-memory store
	keptByMemory   = 1 << 15 // how many keys memory.Counters keeps besides the keys of the last four windows
)

// TestMemoryIsBounded charges a million addresses, or a tenth as many with -race or -short. If
// tt.clock is set, the clock advances by 20 seconds. The heap must not grow while the last quarter
// of the addresses is charged.
func TestMemoryIsBounded(t *testing.T) {
	addresses := 1_000_000
	if testing.Short() || raceEnabled() {
		addresses = 100_000
	}
	perSecond := addresses / 20
	boundOfMemory := int64((4*perSecond + keptByMemory) * boundOfCounted)
	tests := []struct {
		name  string
		store ratelimit.Store
		limit int64 // with a limit of 1, every address exhausts its counters
		clock bool  // whether the clock advances
		bound int64
	}{
		{"a store without memory, one window", admitting{}, 200, false, boundOfNothing},
		{"a store without memory, one window, every address exhausted", admitting{}, 1, false, boundOfKnown},
		{"a store in memory", memory.NewCounters(), 200, true, boundOfMemory},
		{"a store in memory, every address exhausted", memory.NewCounters(), 1, true, boundOfMemory + boundOfKnown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, c := newLimiter(t, tt.store, ratelimit.Limits{Imports: tt.limit, Requests: tt.limit})
			c.t = c.t.Add(900 * time.Millisecond) // so that the heap is measured late in a window
			before, early := heap(), int64(0)
			for i := range addresses {
				if tt.clock {
					c.t = c.t.Add(time.Second / time.Duration(perSecond))
				}
				r := from("2001:db8:"+strconv.FormatInt(int64(i>>16), 16)+":"+strconv.FormatInt(int64(i&0xffff), 16)+"::/64", create("create-event"))
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
				t.Errorf("the heap grew by %d and %d bytes, want at most %d", early, late, tt.bound)
			}
			if late > early+boundOfNothing {
				t.Errorf("the heap still grows: by %d bytes after three quarters, by %d at the end", early, late)
			}
			runtime.KeepAlive(l)
		})
	}
}

// An address that was refused on several routes takes more memory. Here, every address is
// refused on all four export routes.
func TestMemoryOfRefusedExportsIsBounded(t *testing.T) {
	const bound = 24 << 20
	l, _ := newLimiter(t, admitting{}, ratelimit.Limits{Records: 1})
	before := heap()
	for i := range 50_000 {
		for _, route := range []string{"list-entity", "get-entity", "list-event", "get-event"} {
			for _, records := range []int64{1, 2} { // the first export fills the counter, the second is refused
				r := from("2001:db8:"+strconv.FormatInt(int64(i>>16), 16)+":"+strconv.FormatInt(int64(i&0xffff), 16)+"::/64", list(route, records))
				if _, err := l.Charge(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	grown := heap() - before
	t.Logf("%d kB", grown>>10)
	if grown > bound {
		t.Errorf("the heap grew by %d bytes, want at most %d", grown, bound)
	}
	runtime.KeepAlive(l)
}

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
	runtime.GC() // objects in pools or with finalizers survive the first collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
