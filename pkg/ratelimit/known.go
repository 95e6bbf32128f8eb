package ratelimit

import "sync"

// maxKnown is the number of counters that a Limiter remembers; together they
// take about 6 MB. It calls the store for requests that need others.
const maxKnown = 1 << 15

// maxLate is how many windows before the newest one the result of a charge may
// be. A result from before that means that the clock was set back.
const maxLate = 3

// known remembers counters of the newest window: those of requests that were
// refused or that exhausted one. Counters only grow within a window, so what did
// not fit once does not fit until the window ends. An address that stays within
// its limits takes no memory. It is safe for concurrent use.
type known struct {
	mu       sync.Mutex
	window   Window
	counters map[counterID]seen
}

// counterID names a counter.
type counterID struct {
	key  Key
	name string
}

// seen is what is known about a counter.
type seen struct {
	used    int64 // its value when it was last seen
	refused bool  // a request was refused because of it
}

// refuses reports whether one of costs is known not to fit. It returns the
// values of the counters as they were last seen, 0 for those that are unknown.
//
// If unread, the cost in records is what an export asks for. It may find fewer,
// so that cost counts only after an export was read and refused.
func (k *known) refuses(key Key, costs []Cost, unread bool) (used []int64, refused bool) {
	used = make([]int64, len(costs))
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Window != k.window {
		return used, false
	}
	for i, c := range costs {
		s, ok := k.counters[counterID{key, c.Rule.Counter}]
		used[i] = s.used
		counts := !unread || s.refused || c.Rule.Policy != PolicyRecords
		refused = refused || ok && counts && !c.Rule.Fits(s.used, c.Amount)
	}
	return used, refused
}

// note remembers the counters of d, a refusal or an admission that exhausted one
// of them.
func (k *known) note(key Key, d Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Window < k.window && key.Window >= k.window-maxLate {
		return
	}
	if key.Window != k.window || k.counters == nil {
		k.window, k.counters = key.Window, make(map[counterID]seen)
	}
	for _, c := range d.Counts {
		id := counterID{key, c.Rule.Counter}
		s, ok := k.counters[id]
		if !ok && len(k.counters) >= maxKnown {
			continue
		}
		refused := !d.Allowed && !c.fits()
		k.counters[id] = seen{used: max(s.used, c.Used), refused: s.refused || refused}
	}
}
