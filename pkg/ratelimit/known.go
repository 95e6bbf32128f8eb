package ratelimit

import (
	"maps"
	"sync"
	"sync/atomic"
)

// maxKnown is the most counters that a Limiter remembers, and the most quotas; each take about 6 MB. For
// any other counter, it calls the store.
const maxKnown = 1 << 15

// known remembers the counters of each request in the current window that was refused or that
// exhausted a counter, and the quotas that are exhausted or caused a refusal. Counters only grow within a
// window and quotas within their period, so a cost that does not fit now cannot fit until the end,
// unless the limit changes. Identities within their limits take no memory. known is safe for concurrent
// use.
type known struct {
	current func() Window
	window  atomic.Int64 // window of the counters below; may be read without mu
	quoted  atomic.Int64 // number of quotas; may be read without mu

	mu       sync.Mutex
	counters map[counterID]seen
	quotas   map[Sum]seen
	today    Window // the day in which quotas that had ended were forgotten
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

// and adds what a count says.
func (s seen) and(c Count, known, refused bool) seen {
	return seen{used: max(s.used, c.Used), unseen: (s.unseen || !known) && c.Unknown, refused: s.refused || refused}
}

// refuse reports whether the request is known not to fit; if so, d is the refusal. at is the window in
// which the store would count it.
//
// unread marks an export that has not been read yet. Its cost in records is the number that it asks
// for, although it may find fewer. That cost is ignored until an export of the same identity has
// been refused in this window, or by this quota, because of its records.
func (k *known) refuse(key Key, at Window, costs []Cost, unread bool) (d Decision, refused bool) {
	current := at == key.Window && at == Window(k.window.Load())
	if !current && (k.quoted.Load() == 0 || len(perSecond(costs)) == len(costs)) {
		return Decision{}, false
	}
	d = Decision{Local: true, Window: at, Counts: make([]Count, len(costs))}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range costs {
		var s seen
		var ok bool
		if c.Rule.Period != Second {
			s, ok = k.quotas[quotaID(key, c.Rule, at)]
		} else if current {
			s, ok = k.counters[counterID{key, c.Rule.Counter}]
		}
		d.Counts[i] = Count{Rule: c.Rule, Cost: c.Amount, Used: s.used, Unknown: !ok || s.unseen}
		counts := !unread || s.refused || c.Rule.Counter != RuleRecords
		refused = refused || ok && counts && !d.Counts[i].fits()
	}
	return d, refused
}

func quotaID(key Key, r Rule, w Window) Sum {
	return Sum{Identity: key.Identity, Counter: r.Counter, Period: r.Period, Start: r.Period.Start(w)}
}

// note adds the counters of d to k if d is a refusal or the request exhausted a counter;
// otherwise it only updates counters that k already has. It ignores decisions outside the
// current window, because no later request needs them, except for quotas. When the clock jumps, k loses
// only the counters of the window before the jump.
func (k *known) note(key Key, d Decision) {
	k.noteQuotas(key, d)
	full := d.Remaining() == 0
	if d.Window != key.Window || !full && key.Window != Window(k.window.Load()) {
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
		if c.Rule.Period != Second {
			continue
		}
		id := counterID{key, c.Rule.Counter}
		s, ok := k.counters[id]
		refused := !d.Allowed && !c.fits()
		if c.Unknown && !refused || !ok && (!full || len(k.counters) >= maxKnown) {
			continue
		}
		k.counters[id] = s.and(c, ok, refused)
	}
}

// noteQuotas remembers the quotas of d that are exhausted or refuse the request, in the period of
// d.Window, and updates those that k already has.
func (k *known) noteQuotas(key Key, d Decision) {
	for _, c := range d.Counts {
		if c.Rule.Period == Second {
			continue
		}
		refused := !d.Allowed && !c.fits()
		news := refused || !c.Unknown && c.remaining() == 0
		if !news && (c.Unknown || k.quoted.Load() == 0) {
			continue
		}
		k.mu.Lock()
		id := quotaID(key, c.Rule, d.Window)
		s, ok := k.quotas[id]
		if !ok && news {
			k.forget(d.Window)
		}
		if ok || news && len(k.quotas) < maxKnown {
			k.quotas[id] = s.and(c, ok, refused)
		}
		k.quoted.Store(int64(len(k.quotas)))
		k.mu.Unlock()
	}
}

// forget removes, once a day, the quotas that have ended at w.
func (k *known) forget(w Window) {
	if k.quotas == nil {
		k.quotas = make(map[Sum]seen)
	}
	if today := Day.Start(w); today != k.today {
		k.today = today
		maps.DeleteFunc(k.quotas, func(q Sum, _ seen) bool { return q.Period.End(q.Start) <= w })
	}
}
