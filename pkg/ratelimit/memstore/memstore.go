// Package memstore keeps rate limit counters in the memory of one process.
package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"

	"sluice/pkg/ratelimit"
)

const (
	// shards is the number of parts of a window, each with a lock of its own.
	shards = 64

	// retained is the number of windows before the newest one that are kept
	// even if they hold many addresses, for charges that arrive late.
	retained = 3

	// maxHistory is the number of addresses that the windows before those may
	// hold together. They are kept for ratelimit.Usage.
	maxHistory = 1 << 15
)

// errDropped is the error of a charge in a window whose counters were dropped.
var errDropped = errors.New("the counters of the window were dropped")

// Store is a ratelimit.Store and a ratelimit.UsageStore. An address takes about
// 400 bytes for each class and window in which it makes requests. The first
// charge in a new window drops windows of more than a minute ago, and windows
// of the last minute that hold too many addresses. Store is safe for concurrent
// use.
type Store struct {
	seed maphash.Seed

	mu      sync.RWMutex
	windows map[ratelimit.Window]*window
	newest  ratelimit.Window
	dropped ratelimit.Window // the newest window that was dropped
}

// window holds the counters of one window, by the hash of their address.
type window [shards]shard

// shard holds counters by address and class, then by name.
type shard struct {
	mu       sync.Mutex
	counters map[owner]map[string]int64
}

type owner struct {
	address string
	class   ratelimit.Class
}

// New returns an empty Store.
func New() *Store {
	return &Store{seed: maphash.MakeSeed(), windows: make(map[ratelimit.Window]*window), dropped: math.MinInt64}
}

// Charge implements ratelimit.Store. It fails if ctx is done or if the counters
// of the window were dropped. If the window is a minute or more before the
// newest one, the clock was set back: Charge then drops all counters.
func (s *Store) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Result{}, err
	}
	w := s.window(key.Window)
	if w == nil {
		var err error
		if w, err = s.addWindow(key.Window); err != nil {
			return ratelimit.Result{}, err
		}
	}
	return s.shard(w, key).charge(owner{key.Address, key.Class}, costs), nil
}

// Used implements ratelimit.UsageStore. It fails only if ctx is done.
func (s *Store) Used(ctx context.Context, keys []ratelimit.Key) ([]map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	used := make([]map[string]int64, len(keys))
	for i, key := range keys {
		if w := s.window(key.Window); w != nil {
			used[i] = s.shard(w, key).used(owner{key.Address, key.Class})
		}
	}
	return used, nil
}

// window returns the window at, or nil if it does not exist.
func (s *Store) window(at ratelimit.Window) *window {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.windows[at]
}

// addWindow returns the window at, adding it if it does not exist.
func (s *Store) addWindow(at ratelimit.Window) (*window, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.windows[at]; w != nil {
		return w, nil // added since
	}
	switch {
	case s.newest-at >= ratelimit.Window(ratelimit.UsageWindows):
		clear(s.windows)
		s.newest, s.dropped = at, math.MinInt64
	case at <= s.dropped:
		return nil, errDropped
	case at > s.newest:
		s.newest = at
		s.drop()
	}
	w := new(window)
	s.windows[at] = w
	return w, nil
}

// drop drops windows that are too old or that hold more addresses than newer
// windows left room for. s.mu is locked.
func (s *Store) drop() {
	addresses := 0
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(s.windows))) {
		age := s.newest - at
		if age <= retained {
			continue
		}
		size := s.windows[at].size()
		if age >= ratelimit.Window(ratelimit.UsageWindows) || addresses+size > maxHistory {
			delete(s.windows, at)
			s.dropped = max(s.dropped, at)
			continue
		}
		addresses += size
	}
}

// shard returns the part of w that holds the counters of key.
func (s *Store) shard(w *window, key ratelimit.Key) *shard {
	return &w[maphash.String(s.seed, key.Address)%shards]
}

// size returns the number of addresses in w, counting each once per class.
func (w *window) size() (n int) {
	for i := range w {
		w[i].mu.Lock()
		n += len(w[i].counters)
		w[i].mu.Unlock()
	}
	return n
}

func (sh *shard) charge(o owner, costs []ratelimit.Cost) ratelimit.Result {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	counters := sh.counters[o]
	result := ratelimit.Result{Admitted: true, Used: make([]int64, len(costs))}
	for i, c := range costs {
		result.Used[i] = counters[c.Rule.Counter]
		result.Admitted = result.Admitted && c.Rule.Fits(result.Used[i], c.Amount)
	}
	if !result.Admitted {
		return result
	}
	if counters == nil {
		counters = make(map[string]int64, len(costs))
		if sh.counters == nil {
			sh.counters = make(map[owner]map[string]int64)
		}
		sh.counters[o] = counters
	}
	for i, c := range costs {
		result.Used[i] += c.Amount
		counters[c.Rule.Counter] = result.Used[i]
	}
	return result
}

func (sh *shard) used(o owner) map[string]int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return maps.Clone(sh.counters[o])
}
