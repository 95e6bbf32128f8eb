package memory

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"sluice/pkg/ratelimit"
)

// block is by how much a sum is reserved ahead, unless it has a limit: then by a hundredth of it, and at
// most up to it.
const block = 1000

const keptDays = 3 // the current one included

// sums are the sums of keys. What is used never exceeds what a SumStore has as used: it is reserved
// ahead in blocks, so that few charges wait for the disk. After a crash, the rest of a block counts as
// used; after Save nothing is lost.
type sums struct {
	store  ratelimit.SumStore // nil keeps sums only in memory
	saving sync.Mutex         // held during SaveSums

	// Guarded by Counters.mu.
	known  map[ratelimit.Sum]sum
	wanted map[ratelimit.Sum]want
	today  ratelimit.Window // the day in which older sums were removed
}

type sum struct{ used, reserved int64 }

// want says by how much more than is used a sum should be reserved, the most that a charge needs, and
// the limit.
type want struct{ ahead, needed, limit int64 }

// sumOf returns the sum of a cost; ok is false if the cost is of a second.
func sumOf(key ratelimit.Key, c ratelimit.Cost) (s ratelimit.Sum, ok bool) {
	p := c.Rule.Period
	return ratelimit.Sum{Identity: key.Identity, Counter: c.Rule.Counter, Period: p, Start: p.Start(key.Window)}, p != ratelimit.Second
}

// short reports whether a sum must be reserved before it takes the cost.
func (s *sums) short(of ratelimit.Sum, c ratelimit.Cost) bool {
	k := s.known[of]
	if s.store == nil || c.Amount == 0 || k.used+c.Amount <= k.reserved || !c.Rule.Fits(k.used, c.Amount) {
		return false
	}
	ahead := int64(block)
	if c.Rule.Limit != ratelimit.NoLimit {
		ahead = c.Rule.Limit / 100
	}
	w := s.wanted[of]
	s.wanted[of] = want{max(w.ahead, ahead, c.Amount), max(w.needed, c.Amount), max(w.limit, c.Rule.Limit)}
	return true
}

func (s *sums) add(of ratelimit.Sum, amount int64) int64 {
	k := s.known[of]
	k.used += amount
	s.known[of] = k
	return k.used
}

// of returns what a key has used in the period that contains w.
func (s *sums) of(identity string, p ratelimit.Period, w ratelimit.Window) ratelimit.PeriodUsage {
	used := func(counter string) int64 {
		return s.known[ratelimit.Sum{Identity: identity, Counter: counter, Period: p, Start: p.Start(w)}].used
	}
	return ratelimit.PeriodUsage{Start: p.Start(w), Records: used(ratelimit.RuleRecords), Imports: used(ratelimit.RuleImports)}
}

// NewDurableCounters returns a Counters whose sums of days and months are in store. Save must be
// called at the end.
func NewDurableCounters(ctx context.Context, store ratelimit.SumStore) (*Counters, error) {
	s := NewCounters()
	stored, err := store.Sums(ctx)
	if err != nil {
		return nil, fmt.Errorf("read sums: %w", err)
	}
	s.sums.store = store
	for of, n := range stored {
		s.sums.known[of] = sum{used: n, reserved: n}
	}
	return s, nil
}

// Save stores exactly what is used of each sum. The next charge of each reserves a block again.
func (s *Counters) Save() error {
	if s.sums.store == nil {
		return nil
	}
	s.sums.saving.Lock()
	defer s.sums.saving.Unlock()
	exact := make(map[ratelimit.Sum]int64)
	s.mu.Lock()
	for of, k := range s.sums.known {
		if k.used != k.reserved {
			exact[of] = k.used
			k.reserved = k.used
			s.sums.known[of] = k
		}
	}
	s.mu.Unlock()
	if len(exact) == 0 {
		return nil
	}
	return s.sums.store.SaveSums(context.Background(), exact)
}

// reserve saves the sums that charges want. One call saves those of all that wait meanwhile.
func (s *Counters) reserve(ctx context.Context, w ratelimit.Window) error {
	s.sums.saving.Lock()
	defer s.sums.saving.Unlock()
	s.mu.Lock()
	changed := s.sums.prune(w)
	for of, w := range s.sums.wanted {
		if k := s.sums.known[of]; k.reserved < min(k.used+w.needed, w.limit) { // otherwise the save before this one sufficed
			changed[of] = min(k.used+w.ahead, w.limit)
		}
	}
	clear(s.sums.wanted)
	s.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	if err := s.sums.store.SaveSums(ctx, changed); err != nil {
		return fmt.Errorf("save sums: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, n := range changed {
		if n > 0 {
			s.sums.known[of] = sum{s.sums.known[of].used, n}
		}
	}
	return nil
}

// prune forgets the sums that are not needed in the day of w, and returns them with 0. It does so once
// a day.
func (s *sums) prune(w ratelimit.Window) map[ratelimit.Sum]int64 {
	gone := make(map[ratelimit.Sum]int64)
	today := ratelimit.Day.Start(w)
	if today <= s.today {
		return gone
	}
	s.today = today
	oldest := map[ratelimit.Period]ratelimit.Window{ratelimit.Day: today, ratelimit.Month: ratelimit.Month.Start(w)}
	for range keptDays - 1 {
		oldest[ratelimit.Day] = ratelimit.Day.Start(oldest[ratelimit.Day] - 1)
	}
	for range ratelimit.KeptMonths - 1 {
		oldest[ratelimit.Month] = ratelimit.Month.Start(oldest[ratelimit.Month] - 1)
	}
	maps.DeleteFunc(s.known, func(of ratelimit.Sum, _ sum) bool {
		old := of.Start < oldest[of.Period]
		if old {
			gone[of] = 0
		}
		return old
	})
	return gone
}
