package ratelimit

import "sync"

// maxKnown is the number of counters that a Limiter remembers in a window, about
// 8 MB. The store decides about the others.
const maxKnown = 1 << 16

// maxLate is how many windows before the newest one a charge can have been made
// whose result arrives only now. A result of an earlier window means that the
// clock was set back.
const maxLate = 3

// known remembers, for one window, counters that requests were refused for and
// counters of requests that exhausted one. Counters only grow within a window,
// so what did not fit once does not fit until the window ends. An address that
// stays within its limits takes no memory. It is safe for concurrent use.
type known struct {
	mu       sync.Mutex
	window   Window
	counters map[counterID]seen
}

// counterID names a counter within a window.
type counterID struct {
	address string
	class   Class
	name    string
}

// seen is what is known about a counter.
type seen struct {
	used    int64 // its value when it was last seen
	refused bool  // a request was refused because of it
}

// refuses reports whether one of costs is known not to fit. It returns the
// values of the counters, 0 for those that are unknown.
func (k *known) refuses(key Key, costs []Cost) (used []int64, refused bool) {
	return k.check(key, costs, func(Cost, seen) bool { return true })
}

// foresees is refuses for an export whose cost in records is what it asks for.
// As it may find fewer, that cost counts only after an export was read and
// refused.
func (k *known) foresees(key Key, costs []Cost) (used []int64, refused bool) {
	return k.check(key, costs, func(c Cost, s seen) bool { return s.refused || c.Rule.Policy != PolicyRecords })
}

func (k *known) check(key Key, costs []Cost, counts func(Cost, seen) bool) (used []int64, refused bool) {
	used = make([]int64, len(costs))
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Window != k.window {
		return used, false
	}
	for i, c := range costs {
		s, ok := k.counters[counterID{key.Address, key.Class, c.Rule.Counter}]
		if ok && counts(c, s) && !c.Rule.Fits(s.used, c.Amount) {
			refused = true
		}
		used[i] = s.used
	}
	return used, refused
}

// note remembers the counters of a refusal, or of an admission that exhausted
// one of them.
func (k *known) note(key Key, d Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Window < k.window && key.Window >= k.window-maxLate {
		return
	}
	if key.Window != k.window {
		k.window, k.counters = key.Window, make(map[counterID]seen)
	}
	for _, c := range d.Counts {
		id := counterID{key.Address, key.Class, c.Rule.Counter}
		s, ok := k.counters[id]
		if !ok && len(k.counters) >= maxKnown {
			continue
		}
		refused := !d.Allowed && !c.fits()
		k.counters[id] = seen{used: max(s.used, c.Used), refused: s.refused || refused}
	}
}
