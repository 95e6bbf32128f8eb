package ratelimit

import (
	"sync"
	"sync/atomic"
)

// maxKnown is the number of counters that a Limiter remembers; together they
// take about 6 MB. It calls the store for requests that need others.
const maxKnown = 1 << 15

// known remembers counters of the current window: those of requests that were
// refused or that exhausted one. Counters only grow within a window, so what did
// not fit once does not fit until the window ends. An address that stays within
// its limits takes no memory. It is safe for concurrent use.
type known struct {
	current func() Window // returns the window of the clock
	window  atomic.Int64  // of counters; requests of other windows need not wait for mu

	mu       sync.Mutex
	counters map[counterID]seen
}

// counterID names a counter.
type counterID struct {
	key  Key
	name string
}

// seen is what is known about a counter.
type seen struct {
	used    int64 // its value when it was last seen, or 0
	unseen  bool  // its value has not been seen: a cost was above the limit
	refused bool  // a request was refused because of it
}

// refuse returns the refusal of a request that is known not to fit. It reports
// false for any other request.
//
// If unread, the cost in records is what an export asks for. It may find fewer,
// so that cost counts only after an export was read and refused.
func (k *known) refuse(key Key, costs []Cost, unread bool) (d Decision, refused bool) {
	if key.Window != Window(k.window.Load()) {
		return Decision{}, false
	}
	d = Decision{Local: true, Window: key.Window, Counts: make([]Count, len(costs))}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range costs {
		s, ok := k.counters[counterID{key, c.Rule.Counter}]
		d.Counts[i] = Count{Rule: c.Rule, Cost: c.Amount, Used: s.used, Unknown: !ok || s.unseen}
		counts := !unread || s.refused || c.Rule.Policy != PolicyRecords
		refused = refused || ok && counts && !d.Counts[i].fits()
	}
	return d, refused
}

// note remembers the counters of d if it is a refusal or exhausted one of them.
// Otherwise it only updates what is known of them. It ignores a decision in
// another window than the current one, which no further request needs, so a
// clock that jumps loses only what was known of the window that it left.
func (k *known) note(key Key, d Decision) {
	full := d.Remaining() == 0
	if !full && key.Window != Window(k.window.Load()) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Window != k.current() {
		return
	}
	if key.Window != Window(k.window.Load()) {
		k.window.Store(int64(key.Window))
		k.counters = make(map[counterID]seen)
	}
	for _, c := range d.Counts {
		id := counterID{key, c.Rule.Counter}
		s, ok := k.counters[id]
		refused := !d.Allowed && !c.fits()
		if c.Unknown && !refused || !ok && (!full || len(k.counters) >= maxKnown) {
			continue
		}
		k.counters[id] = seen{used: max(s.used, c.Used), unseen: (s.unseen || !ok) && c.Unknown, refused: s.refused || refused}
	}
}
