// Package memstore keeps rate limit counters in the memory of one process.
package memstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sluice/pkg/ratelimit"
)

// retainedWindows is how many windows before the newest keep their counters. A
// charge that is under way as its window ends still finds them: a Limiter
// gives it up before they are dropped, unless its Timeout is raised.
const retainedWindows = 3

// maxHistory bounds the items of older windows, which are kept for an overview
// of the last minute: about 11 MB.
const maxHistory = 1 << 15

// Store is a ratelimit.Store and a ratelimit.UsageStore. An item, which is an
// address and class in one window, takes about 350 bytes. Those of four seconds
// are always kept; those of the rest of the last minute as long as they are no
// more than 32,768 together, the newest windows first. So memory is bounded by
// the addresses that one process sees in four seconds. It is safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex
	newest  ratelimit.Window
	windows map[ratelimit.Window]map[item]map[string]int64 // counters by name
}

// item is a ratelimit.Key within its window.
type item struct {
	address string
	class   ratelimit.Class
}

// New makes an empty Store.
func New() *Store {
	return &Store{windows: make(map[ratelimit.Window]map[item]map[string]int64)}
}

// Charge implements ratelimit.Store. It fails only when ctx is done.
func (s *Store) Charge(ctx context.Context, key ratelimit.Key, counters []ratelimit.Counter) (admitted bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.counters(key)
	admitted = true
	for i := range counters {
		c := &counters[i]
		c.Used = used[c.Name]
		admitted = admitted && c.Fits()
	}
	if !admitted {
		return false, nil
	}
	for i := range counters {
		c := &counters[i]
		c.Used += c.Cost
		used[c.Name] = c.Used
	}
	return true, nil
}

// counters are the key's counters by name, made if there are none. s.mu is held.
func (s *Store) counters(key ratelimit.Key) map[string]int64 {
	window := s.windows[key.Window]
	if window == nil {
		window = make(map[item]map[string]int64)
		s.windows[key.Window] = window
		s.expire(key.Window)
	}
	it := item{address: key.Address, class: key.Class}
	used := window[it]
	if used == nil {
		used = make(map[string]int64, 2)
		window[it] = used
	}
	return used
}

// Used implements ratelimit.UsageStore. It fails only when ctx is done.
func (s *Store) Used(ctx context.Context, keys []ratelimit.Key) ([]map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	used := make([]map[string]int64, len(keys))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		used[i] = maps.Clone(s.windows[key.Window][item{address: key.Address, class: key.Class}])
	}
	return used, nil
}

// expire drops the windows that w, if it is the newest, leaves too far behind,
// and of the others the oldest ones that maxHistory has no room for.
func (s *Store) expire(w ratelimit.Window) {
	if w <= s.newest {
		return
	}
	s.newest = w
	history, full := 0, false
	for _, old := range slices.Backward(slices.Sorted(maps.Keys(s.windows))) {
		if old >= w-retainedWindows {
			continue
		}
		history += len(s.windows[old])
		full = full || history > maxHistory
		if full || old <= w-ratelimit.Window(ratelimit.UsageWindows) {
			delete(s.windows, old)
		}
	}
}
