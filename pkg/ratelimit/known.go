package ratelimit

import (
	"sync"
	"sync/atomic"
)

// maxKnown bounds how many keys of a window are remembered as exhausted. What
// is beyond is decided by the store, as if nothing were known. A full memory
// takes about 8 MB, or 20 MB if every key was refused on four export routes.
const maxKnown = 1 << 15

// known remembers what cannot pass any more in the newest window. Counters only
// grow within a window, so what they excluded once they exclude until it ends.
// Only keys that are exhausted or have been refused are remembered: an address
// that stays within its limits takes no memory. It is safe for concurrent use.
type known struct {
	window atomic.Int64 // the newest, so that most requests need not lock
	filled atomic.Bool  // count is not 0, in any window yet

	mu    sync.Mutex
	keys  [Classes]map[string]*exhausted // of the newest window, by address
	count int                            // of keys
}

// exhausted is what is known of one key.
type exhausted struct {
	used  []seen // the counters, as last seen
	asked []seen // per route's counter, the fewest records that were asked for and refused
}

// seen is a number that goes with a counter's name.
type seen struct {
	name string
	n    int64
}

func find(list []seen, name string) *seen {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// excludes reports whether d's rules have no room for its costs. It sets Used as
// far as it is known.
func (e *exhausted) excludes(d *Decision) (excluded bool) {
	for i := range d.Rules {
		if s := find(e.used, d.Rules[i].Counter); s != nil {
			d.Used.Set(i, s.n)
			excluded = excluded || !d.Rules[i].Fits(s.n, d.Cost.At(i))
		}
	}
	return excluded
}

// refused remembers how many records a refused export asked for; 0 if that is
// not known.
func (e *exhausted) refused(route *Route, asked int64) {
	if asked == 0 {
		return
	}
	if s := find(e.asked, route.counter); s == nil {
		e.asked = append(e.asked, seen{route.counter, asked})
	} else {
		s.n = min(s.n, asked)
	}
}

// lock finds what is known of key, and then holds k.mu; nil and not locked where
// nothing is.
func (k *known) lock(key Key) *exhausted {
	if !k.filled.Load() || k.window.Load() != int64(key.Window) {
		return nil
	}
	k.mu.Lock()
	if k.window.Load() == int64(key.Window) {
		if e := k.keys[key.Class][key.Address]; e != nil {
			return e
		}
	}
	k.mu.Unlock()
	return nil
}

// refuses reports whether key's counters are known to have no room for d's costs,
// and remembers what the request asked for if so. It sets Used as far as it is
// known.
func (k *known) refuses(key Key, d *Decision, r Request) bool {
	e := k.lock(key)
	if e == nil {
		return false
	}
	excluded := e.excludes(d)
	if excluded {
		e.refused(r.Route, r.Asked)
	}
	k.mu.Unlock()
	return excluded
}

// foresees is refuses for an export whose records are not read yet: true also if
// on its route as many records or fewer were refused.
func (k *known) foresees(key Key, d *Decision, r Request) bool {
	e := k.lock(key)
	if e == nil {
		return false
	}
	defer k.mu.Unlock()
	if e.excludes(d) {
		return true
	}
	fewest := find(e.asked, r.Route.counter)
	return fewest != nil && r.Asked >= fewest.n
}

// note remembers what the store has decided, where that excludes something.
func (k *known) note(key Key, d *Decision, r Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch newest := k.window.Load(); {
	case int64(key.Window) < newest:
		return
	case int64(key.Window) > newest:
		k.window.Store(int64(key.Window))
		k.keys, k.count = [Classes]map[string]*exhausted{}, 0 // maps that have grown do not shrink
	}
	e := k.keys[key.Class][key.Address]
	if e == nil {
		if k.count >= maxKnown {
			return
		}
		if k.keys[key.Class] == nil {
			k.keys[key.Class] = make(map[string]*exhausted)
		}
		e = &exhausted{}
		k.keys[key.Class][key.Address] = e
		k.count++
		k.filled.Store(true)
	}
	for i := range d.Rules {
		name, used := d.Rules[i].Counter, d.Used.At(i)
		if s := find(e.used, name); s == nil {
			e.used = append(e.used, seen{name, used})
		} else {
			s.n = max(s.n, used)
		}
	}
	if !d.Allowed {
		e.refused(r.Route, r.Asked)
	}
}
