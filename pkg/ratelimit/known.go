package ratelimit

import (
	"sync"
	"sync/atomic"
)

// maxKnown is the most counters that a Limiter remembers; they take about 6 MB. For any other
// counter, it calls the store.
const maxKnown = 1 << 15

// known remembers the counters of each request in the current window that was refused or that
// exhausted a counter. Counters only grow within a window, so a cost that does not fit now cannot
// fit until the window ends. Identities within their limits take no memory. known is safe for
// concurrent use.
type known struct {
	current func() Window
	window  atomic.Int64 // window of the counters below; may be read without mu

	mu       sync.Mutex
	counters map[counterID]seen
}

type counterID struct {
	key  Key
	name string
}

type seen struct {
	used    int64 // last known value; 0 if there is none
	unseen  bool  // used is unknown, because the store refused a cost above the limit without reading the counter
	refused bool  // a request was refused because of this counter
}

// refuse reports whether the request is known not to fit; if so, d is the refusal.
//
// unread marks an export that has not been read yet. Its cost in records is the number that it asks
// for, although it may find fewer. That cost is ignored until an export of the same identity has
// been refused in this window because of its records.
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
		counts := !unread || s.refused || c.Rule.Name != RuleRecords
		refused = refused || ok && counts && !d.Counts[i].fits()
	}
	return d, refused
}

// note adds the counters of d to k if d is a refusal or the request exhausted a counter;
// otherwise it only updates counters that k already has. It ignores decisions outside the
// current window, because no later request needs them. When the clock jumps, k loses only the
// counters of the window before the jump.
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
