package ratelimit

import (
	"sync"
	"sync/atomic"
)

// maxKnown is how many counters a Limiter remembers, about 6 MB. For any others, it calls the
// store.
const maxKnown = 1 << 15

// known remembers the counters of the current window that a request exhausted or was refused
// by. Counters only grow within a window, so a cost that did not fit once cannot fit until the
// window ends. Identities within their limits take no memory. known is safe for concurrent
// use.
type known struct {
	current func() Window
	window  atomic.Int64 // of the counters below; readable without mu

	mu       sync.Mutex
	counters map[counterID]seen
}

type counterID struct {
	key  Key
	name string
}

type seen struct {
	used    int64 // last known value; 0 if there is none
	unseen  bool  // unknown, because the store refused a cost above the limit without reading the counter
	refused bool  // a request was refused because of this counter
}

// refuse returns a refusal if the request is known not to fit, and otherwise false.
//
// unread marks an export that has not been read yet, whose cost is the number of records it
// asks for. It may find fewer, so that cost counts only if an export was read and then refused
// in the same window.
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

// note remembers the counters of d if d is a refusal or the request exhausted a counter;
// otherwise it only updates counters already remembered. It ignores decisions outside the
// current window, because no later request needs them. When the clock jumps, only the counters
// of the previous window are lost.
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
