package memory

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func TestCounters(t *testing.T) {
	storetest.Counters(t, func(*testing.T) ratelimit.Store { return NewCounters() })
}

func TestUsage(t *testing.T) {
	storetest.Usage(t, func(*testing.T) (ratelimit.Store, ratelimit.UsageStore) {
		s := NewCounters()
		return s, s
	})
}

// What is admitted while others read is in the list in the end, of every identity and group.
func TestMinuteHasAllIdentities(t *testing.T) {
	t.Parallel()
	s := NewCounters()
	const first, identities, each = ratelimit.Window(1_800_000_000), 5, 120
	used := make([]ratelimit.MinuteUsage, identities)
	var wg sync.WaitGroup
	for n := range used {
		wg.Go(func() {
			peaks := make(map[ratelimit.Window]int64)
			for i := range int64(each) {
				w := first + ratelimit.Window(i%59)
				for group, counter := range map[ratelimit.Group]string{"import": "imports", "usage": "r_usage"} {
					result, err := s.Charge(t.Context(), ratelimit.Key{Identity: fmt.Sprint(n), Group: group, Window: w}, []ratelimit.Cost{{Rule: ratelimit.Rule{Counter: counter, Limit: 2}, Amount: 1 + i%2}})
					if err != nil {
						t.Error(err)
					}
					if !result.Admitted {
						continue
					}
					if group == "usage" {
						used[n].Requests += 1 + i%2
						continue
					}
					used[n].Imports += 1 + i%2
					peaks[w] += 1 + i%2
					used[n].Peak.Imports = max(used[n].Peak.Imports, peaks[w])
				}
				if _, err := s.Minute(t.Context(), first+59); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := s.Minute(t.Context(), first+59)
	if err != nil || len(all) != identities {
		t.Fatalf("%v, error %v", all, err)
	}
	for n, want := range used {
		want.Peak.Requests = want.Peak.Imports
		if got := all[fmt.Sprint(n)]; got != want || want.Imports < 80 {
			t.Errorf("%d: %+v, want %+v", n, got, want)
		}
	}
	if later, err := s.Minute(t.Context(), first+120); err != nil || len(later) > 0 {
		t.Errorf("two minutes later: %v, error %v", later, err)
	}
}

func keyAt(address int, w ratelimit.Window) ratelimit.Key {
	return ratelimit.Key{Identity: fmt.Sprint(address), Group: "import", Window: w}
}

func counting(counter string) []ratelimit.Cost {
	return []ratelimit.Cost{{Rule: ratelimit.Rule{Counter: counter, Limit: 2}, Amount: 1}}
}

func charge(t *testing.T, s *Counters, key ratelimit.Key) (admitted bool, used int64) {
	t.Helper()
	result, err := s.Charge(t.Context(), key, counting("a"))
	if err != nil {
		t.Fatalf("%v: %v", key, err)
	}
	return result.Admitted, result.Used[0]
}

func TestOldWindowsAreDropped(t *testing.T) {
	for perWindow, windows := range map[int]ratelimit.Window{1: minute + 5, 100: minute + 5, 5000: 20, 20_000: 6} {
		t.Run(fmt.Sprintf("%d new addresses a window", perWindow), func(t *testing.T) {
			t.Parallel()
			s := NewCounters()
			for w := range windows {
				for i := range perWindow {
					charge(t, s, keyAt(int(w)*perWindow+i, w))
				}
			}
			keys := 0
			for _, window := range s.windows {
				keys += len(window)
			}
			if n := len(s.windows); n > int(minute) {
				t.Errorf("the store has %d windows", n)
			}
			if bound := min(int(minute)*perWindow, (retained+1)*perWindow+maxHistory); keys > bound {
				t.Errorf("the store holds %d keys, want at most %d", keys, bound)
			}
		})
	}
}

// One active client is enough to release the memory of all idle clients.
func TestMemoryOfIdleAddressesIsReleased(t *testing.T) {
	const addresses, boundOfActive, boundOfIdle = 100_000, 55 << 20, 1 << 20
	s := NewCounters()
	before := heap()
	for i := range addresses {
		charge(t, s, keyAt(i, 0))
	}
	if grown := heap() - before; grown > boundOfActive {
		t.Errorf("%d addresses take %d bytes, want at most %d", addresses, grown, boundOfActive)
	}
	for w := range ratelimit.Window(retained + 2) { // the last charge drops window 0, which has more than maxHistory keys
		charge(t, s, keyAt(1, w))
	}
	if grown := heap() - before; grown > boundOfIdle {
		t.Errorf("%d idle addresses still take %d bytes, want at most %d", addresses, grown, boundOfIdle)
	}
	runtime.KeepAlive(s)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestUsageOfTheLastMinuteIsKept(t *testing.T) {
	s := NewCounters()
	const others = 8000
	for w := range ratelimit.Window(ratelimit.UsageWindows + 10) {
		for range 2 {
			charge(t, s, keyAt(-1, w))
		}
		switch w {
		case 10: // many addresses, but no more than maxHistory
			for i := range others {
				charge(t, s, keyAt(i, w))
			}
		case 30: // more than maxHistory addresses, so this window loses its usage, but no other window does
			for i := range maxHistory * 3 / 2 {
				charge(t, s, keyAt(i, w))
			}
		}
	}
	last := keyAt(-1, ratelimit.Window(ratelimit.UsageWindows+9))
	read, err := s.Used(t.Context(), last.Identity, []ratelimit.Route{{Name: "create-event", Class: ratelimit.Import}}, last.Window)
	used := read.Seconds
	if err != nil {
		t.Fatal(err)
	}
	for i, counters := range used {
		w := i + 10
		if w == 30 {
			if len(counters) != 0 {
				t.Errorf("window %d holds %v, want no counters, because it had too many keys", w, counters)
			}
			continue
		}
		if counters["a"] != 2 || len(counters) != 1 {
			t.Errorf("window %d holds %v", w, counters)
		}
	}
}

func TestAWindowCountsForAMinute(t *testing.T) {
	s := NewCounters()
	const last = 100 + minute - 1
	for w := ratelimit.Window(100); w <= last; w++ {
		charge(t, s, keyAt(1, w))
		charge(t, s, keyAt(1, w))
	}
	for w := ratelimit.Window(100); w <= last; w++ {
		if admitted, used := charge(t, s, keyAt(1, w)); admitted || used != 2 {
			t.Errorf("window %d: admitted %v, used %d", w, admitted, used)
		}
	}
}

// A window with too many keys is dropped early, unless it is the newest or one of the three
// before it. Charges in a dropped window fail, so that its counters do not restart at zero.
func TestAChargeInADroppedWindowFails(t *testing.T) {
	s := NewCounters()
	for w := ratelimit.Window(100); w < 104; w++ {
		charge(t, s, keyAt(1, w))
		charge(t, s, keyAt(1, w))
		for i := range maxHistory * 3 / 2 {
			charge(t, s, keyAt(i+2, w))
		}
	}
	for w := ratelimit.Window(100); w < 104; w++ {
		if admitted, used := charge(t, s, keyAt(1, w)); admitted || used != 2 {
			t.Errorf("window %d: admitted %v, used %d", w, admitted, used)
		}
	}
	charge(t, s, keyAt(1, 104))
	for _, w := range []ratelimit.Window{100, 104 - minute + 1} {
		if result, err := s.Charge(t.Context(), keyAt(1, w), counting("a")); result.Admitted || !errors.Is(err, errDropped) {
			t.Errorf("window %d: %+v, error %v", w, result, err)
		}
	}
	for _, w := range []ratelimit.Window{101, 102, 103} {
		if admitted, used := charge(t, s, keyAt(1, w)); admitted || used != 2 {
			t.Errorf("window %d: admitted %v, used %d", w, admitted, used)
		}
	}
	if admitted, used := charge(t, s, keyAt(1, 104)); !admitted || used != 2 {
		t.Errorf("the newest window after a late charge: admitted %v, used %d", admitted, used)
	}
}

func TestAfterTheClockIsSetBackCountersStartAtZero(t *testing.T) {
	for _, back := range []ratelimit.Window{minute, 500} {
		s := NewCounters()
		for w := ratelimit.Window(10_000); w < 10_010; w++ {
			for i := range maxHistory / 4 { // enough keys that some windows are dropped
				charge(t, s, keyAt(i+2, w))
			}
			charge(t, s, keyAt(1, w))
		}
		for w := 10_009 - back; w < 10_000; w++ {
			for n := range int64(3) {
				if admitted, used := charge(t, s, keyAt(1, w)); admitted != (n < 2) || used != min(n+1, 2) {
					t.Fatalf("window %d: admitted %v, used %d", w, admitted, used)
				}
			}
		}
	}
}

// A charge that comes a minute late looks as if the clock had been set back.
func TestAChargeDelayedByAMinuteKeepsTheNewestWindow(t *testing.T) {
	s := NewCounters()
	for range 2 {
		charge(t, s, keyAt(1, 10_000))
	}
	for _, w := range []ratelimit.Window{10_000 - minute, 10_000, 5000, 10_000} {
		if admitted, used := charge(t, s, keyAt(1, w)); admitted != (w != 10_000) || w == 10_000 && used != 2 {
			t.Errorf("window %d: admitted %v, used %d", w, admitted, used)
		}
	}
}
