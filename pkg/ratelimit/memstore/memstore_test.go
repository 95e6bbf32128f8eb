package memstore

import (
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) ratelimit.Store { return New() })
}

func TestUsageStore(t *testing.T) {
	storetest.RunUsage(t, func(*testing.T) (ratelimit.Store, ratelimit.UsageStore) {
		s := New()
		return s, s
	})
}

// keyAt is the key of an address by number.
func keyAt(address int, w ratelimit.Window) ratelimit.Key {
	return ratelimit.Key{Address: fmt.Sprint(address), Class: ratelimit.Import, Window: w}
}

// charge charges a counter of limit 2 by 1.
func charge(t *testing.T, s *Store, key ratelimit.Key) (admitted bool, used int64) {
	t.Helper()
	amounts, admitted, err := s.Charge(t.Context(), key, []ratelimit.Rule{{Counter: "a", Limit: 2}}, ratelimit.Amounts{First: 1})
	if err != nil {
		t.Fatalf("%v: %v", key, err)
	}
	return admitted, amounts.First
}

func TestIdleAddressesAreDropped(t *testing.T) {
	for _, perWindow := range []int{1, 100, 5000} {
		t.Run(fmt.Sprintf("%d new addresses a window", perWindow), func(t *testing.T) {
			t.Parallel()
			s := New()
			for w := range ratelimit.Window(30) {
				for i := range perWindow {
					charge(t, s, keyAt(int(w)*perWindow+i, w))
				}
			}
			items := 0
			for i := range s.shards {
				sh := &s.shards[i]
				items += sh.count
				if n := countItems(sh); n != sh.count || len(sh.history) > maxHistory {
					t.Errorf("shard %d: %d items counted, %d there, %d in history", i, sh.count, n, len(sh.history))
				}
			}
			// A table is made of up to four times as many places as there are busy items,
			// and filled to three quarters.
			if bound := 3*(retained+1)*perWindow + shards*minTable; items > bound {
				t.Errorf("%d items, the bound is %d", items, bound)
			}
		})
	}
}

func TestAnItemIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(item{}); size != 64 {
		t.Errorf("an item has %d bytes", size)
	}
	if hot, size := unsafe.Offsetof(shard{}.count), unsafe.Sizeof(shard{}); hot > 64 || size%64 != 0 {
		t.Errorf("a charge looks at %d bytes of a shard of %d", hot, size)
	}
}

func countItems(sh *shard) (n int) {
	for _, p := range sh.table {
		if p.item != nil {
			n++
		}
	}
	return n
}

func TestUsageOutlivesTheItems(t *testing.T) {
	s := New()
	const others = 8000
	for w := range ratelimit.Window(ratelimit.UsageWindows + 10) {
		for range 2 {
			charge(t, s, keyAt(-1, w))
		}
		if w == 10 { // one second of a crowd, which fills no history
			for i := range others {
				charge(t, s, keyAt(i, w))
			}
		}
	}
	var keys []ratelimit.Key
	for w := ratelimit.Window(10); w < ratelimit.Window(ratelimit.UsageWindows+10); w++ {
		keys = append(keys, keyAt(-1, w))
	}
	used, err := s.Used(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, counters := range used {
		if counters["a"] != 2 || len(counters) != 1 {
			t.Errorf("%v holds %v", keys[i], counters)
		}
	}
}

func TestAWindowCountsUntilThreeLaterOnesBegan(t *testing.T) {
	s := New()
	for w := ratelimit.Window(100); w < 104; w++ {
		charge(t, s, keyAt(1, w))
		charge(t, s, keyAt(1, w))
	}
	for w := ratelimit.Window(100); w < 104; w++ {
		if admitted, used := charge(t, s, keyAt(1, w)); admitted || used != 2 {
			t.Errorf("window %d: admitted %v, used %d", w, admitted, used)
		}
	}
	charge(t, s, keyAt(1, 104))
	for _, w := range []ratelimit.Window{100, 104 - ratelimit.Window(ratelimit.UsageWindows)} {
		if _, admitted, err := s.Charge(t.Context(), keyAt(1, w), []ratelimit.Rule{{Counter: "a", Limit: 2}}, ratelimit.Amounts{First: 1}); admitted || !errors.Is(err, errLate) {
			t.Errorf("window %d: admitted %v, error %v", w, admitted, err)
		}
	}
	if admitted, used := charge(t, s, keyAt(1, 104)); !admitted || used != 2 {
		t.Errorf("a late charge changed what counts: admitted %v, used %d", admitted, used)
	}
}

// A clock that is set back by more than a minute must not stop the service.
func TestAClockThatIsSetBackCountsAnew(t *testing.T) {
	s := New()
	for w := ratelimit.Window(10_000); w < 10_010; w++ {
		charge(t, s, keyAt(1, w))
	}
	for w := ratelimit.Window(10_009 - ratelimit.UsageWindows - 1); w < 10_000; w++ {
		for n := range int64(3) {
			if admitted, used := charge(t, s, keyAt(1, w)); admitted != (n < 2) || used != min(n+1, 2) {
				t.Fatalf("window %d: admitted %v, used %d", w, admitted, used)
			}
		}
	}
}

func TestACounterBeyondThoseInlineIsOneLikeAnyOther(t *testing.T) {
	s := New()
	const names = 3*inline + 1
	for w := ratelimit.Window(100); w < 110; w++ {
		for round := range int64(3) {
			for i := range names {
				used, admitted, err := s.Charge(t.Context(), keyAt(1, w), []ratelimit.Rule{{Counter: fmt.Sprint(i), Limit: 2}}, ratelimit.Amounts{First: 1})
				if err != nil || admitted != (round < 2) || used.First != min(round+1, 2) {
					t.Fatalf("window %d, counter %d: %+v, admitted %v, error %v", w, i, used, admitted, err)
				}
			}
		}
	}
	used, err := s.Used(t.Context(), []ratelimit.Key{keyAt(1, 100), keyAt(1, 109)})
	if err != nil || len(used[0]) != names || len(used[1]) != names {
		t.Errorf("%v, error %v", used, err)
	}
}
