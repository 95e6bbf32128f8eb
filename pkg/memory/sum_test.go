package memory

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"sluice/pkg/ratelimit"
)

// fakeSums is a ratelimit.SumStore that is slow enough for charges to meet.
type fakeSums struct {
	mu    sync.Mutex
	sums  map[ratelimit.Sum]int64
	saves int
	err   error
}

func (f *fakeSums) Sums(context.Context) (map[ratelimit.Sum]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.sums), f.err
}

func (f *fakeSums) SaveSums(_ context.Context, sums map[ratelimit.Sum]int64) error {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	f.saves++
	for of, n := range sums {
		if f.sums[of] = n; n == 0 {
			delete(f.sums, of)
		}
	}
	return nil
}

const charged = "key:7m3kq2xw9abc"

func chargeRecords(s *Counters, at time.Time, n, limit int64) (ratelimit.Result, error) {
	cost := func(p ratelimit.Period, limit int64) ratelimit.Cost {
		return ratelimit.Cost{Rule: ratelimit.Rule{Name: "records", Counter: "records", Period: p, Limit: limit}, Amount: n}
	}
	return s.Charge(context.Background(), ratelimit.Key{Identity: charged, Group: "export", Window: ratelimit.WindowAt(at)},
		[]ratelimit.Cost{cost(ratelimit.Second, ratelimit.NoLimit), cost(ratelimit.Day, limit), cost(ratelimit.Month, ratelimit.NoLimit)})
}

func sumsAt(t *testing.T, s *Counters, at time.Time) (day, month int64) {
	t.Helper()
	u, err := s.Used(t.Context(), charged, []ratelimit.Route{{Name: "list-event", Class: ratelimit.Export}}, ratelimit.WindowAt(at))
	if err != nil {
		t.Fatal(err)
	}
	return u.Day["records"], u.Month["records"]
}

func openSums(t *testing.T, f *fakeSums) *Counters {
	t.Helper()
	s, err := NewDurableCounters(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// After a crash, as without Save, the rest of what was reserved counts as used.
func TestSumsSurviveAStop(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		limit      int64
		stop       func(*Counters) error
		day, month int64
	}{
		"saved": {ratelimit.NoLimit, (*Counters).Save, 2100, 2100},
		"saved, charged and killed": {ratelimit.NoLimit, func(s *Counters) error {
			err := s.Save()
			_, other := chargeRecords(s, noon, 1, ratelimit.NoLimit)
			return errors.Join(err, other)
		}, 3100, 3100},
		"killed, without a limit": {ratelimit.NoLimit, func(*Counters) error { return nil }, 2400, 2400},
		"killed, with a limit":    {5000, func(*Counters) error { return nil }, 2100, 2400}, // a charge takes more than a hundredth
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeSums{sums: make(map[ratelimit.Sum]int64)}
			s := openSums(t, f)
			for range 3 {
				if r, err := chargeRecords(s, noon, 700, tt.limit); !r.Admitted || err != nil {
					t.Fatalf("%+v, error %v", r, err)
				}
			}
			if err := tt.stop(s); err != nil {
				t.Fatal(err)
			}
			if day, month := sumsAt(t, openSums(t, f), noon); day != tt.day || month != tt.month {
				t.Errorf("%d and %d", day, month)
			}
		})
	}
}

func TestSumsAreExactUnderConcurrentCharges(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f := &fakeSums{sums: make(map[ratelimit.Sum]int64)}
	s := openSums(t, f)
	const workers, each, limit = 20, 400, 5030 // the last block would exceed the limit
	var admitted [workers]int64
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			for range each {
				r, err := chargeRecords(s, noon, 1, limit)
				if err != nil {
					t.Error(err)
				}
				if r.Admitted {
					admitted[n]++
				}
				f.mu.Lock()
				stored := f.sums[ratelimit.Sum{Identity: charged, Counter: "records", Period: ratelimit.Day, Start: ratelimit.Day.Start(ratelimit.WindowAt(noon))}]
				f.mu.Unlock()
				if r.Admitted && stored < r.Used[1] || stored > limit {
					t.Errorf("%d are used and %d are stored", r.Used[1], stored)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for _, n := range admitted {
		total += n
	}
	if day, month := sumsAt(t, s, noon); total != limit || day != limit || month != limit {
		t.Errorf("%d admitted, the sums are %d and %d", total, day, month)
	}
	if f.saves > limit/(limit/100)+1 {
		t.Errorf("%d charges saved %d times", limit, f.saves)
	}
}

func TestAChargeFailsIfItsSumCannotBeSaved(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f := &fakeSums{sums: make(map[ratelimit.Sum]int64)}
	s := openSums(t, f)
	f.err = errors.New("the disk is full")
	if r, err := chargeRecords(s, noon, 1, ratelimit.NoLimit); !errors.Is(err, f.err) || r.Admitted {
		t.Errorf("%+v, error %v", r, err)
	}
	f.err = nil
	if r, err := chargeRecords(s, noon, 1, ratelimit.NoLimit); err != nil || !r.Admitted || r.Used[0] != 1 || r.Used[1] != 1 {
		t.Errorf("%+v, error %v", r, err)
	}
}

func TestOldSumsAreRemoved(t *testing.T) {
	t.Parallel()
	f := &fakeSums{sums: make(map[ratelimit.Sum]int64)}
	s := openSums(t, f)
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 430 {
		if _, err := chargeRecords(s, at, 1, ratelimit.NoLimit); err != nil {
			t.Fatal(err)
		}
		at = at.AddDate(0, 0, 1)
	}
	counts := make(map[ratelimit.Period]int)
	for of := range f.sums {
		counts[of.Period]++
	}
	if counts[ratelimit.Day] != keptDays || counts[ratelimit.Month] != ratelimit.KeptMonths || len(s.sums.known) != keptDays+ratelimit.KeptMonths {
		t.Errorf("%v are kept", counts)
	}
}
