package ratelimit

import (
	"sync"
	"sync/atomic"
)

// maxKnown is the maximum number of counters that a Limiter remembers. They take
// about 6 MB. For requests that need other counters, the Limiter calls the store.
const maxKnown = 1 << 15

// known remembers counters of the current window: the counters of each request that was
// refused or that exhausted a counter. Counters only grow within a window, so a cost that
// did not fit once cannot fit until the window ends. An identity that stays within its
// limits takes no memory. known is safe for concurrent use.
type known struct {
	current func() Window // returns the current window
	window  atomic.Int64  // window of the counters below, readable without mu

	mu       sync.Mutex
	counters map[counterID]seen
}

// counterID identifies a counter.
type counterID struct {
	key  Key
	name string
}

// seen is what is known about a counter.
type seen struct {
	used    int64 // last known value, or 0
	unseen  bool  // the value is unknown: the store refused a cost above the limit without reading the counter
	refused bool  // a request was refused because of this counter
}

// refuse returns the refusal of a request that is known not to fit. It reports false
// for every other request.
//
// If unread is true, the request is an export that has not been read, and its cost in
// records is the number of records that the export asks for. The export may find fewer
// records. refuse therefore considers this cost only if an export was read and then
// refused in the same window.
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

// note remembers the counters of d if d is a refusal, or if the request exhausted one
// of the counters. Otherwise it only updates counters that are already remembered. It
// ignores decisions outside the current window, because no later request needs them.
// When the clock jumps, only the counters of the window before the jump are lost.
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
