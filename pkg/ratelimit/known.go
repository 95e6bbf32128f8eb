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
	filled atomic.Bool  // keys is not empty

	mu   sync.Mutex
	keys map[Key]*exhausted
}

// exhausted is what is known of one key.
type exhausted struct {
	used  []seen // the counters, as last seen
	asked []seen // per route counter, the fewest records that were asked for and refused
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

// refuses reports whether key's counters are known to have no room for the
// costs of counters, or whether the key was refused asked or fewer records on
// the route of that counter name. If so it sets Used as far as it is known.
func (k *known) refuses(key Key, counters []Counter, route string, asked int64) bool {
	if !k.filled.Load() || k.window.Load() != int64(key.Window) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.keys[key]
	if e == nil {
		return false
	}
	refused := false
	if fewest := find(e.asked, route); fewest != nil && asked >= fewest.n {
		refused = true
	}
	for i := range counters {
		if s := find(e.used, counters[i].Name); s != nil {
			counters[i].Used = s.n
			refused = refused || !counters[i].Fits()
		}
	}
	return refused
}

// note remembers the outcome of a charge that the store, or what was known of
// it, decided. asked is how many records a refused export asked for on the
// route of that counter name, 0 for other charges.
func (k *known) note(key Key, counters []Counter, admitted bool, route string, asked int64) {
	if admitted && !anyExhausted(counters) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch newest := k.window.Load(); {
	case int64(key.Window) < newest:
		return
	case int64(key.Window) > newest:
		k.window.Store(int64(key.Window))
		k.keys = nil // a map that has grown does not shrink
	}
	e := k.keys[key]
	if e == nil {
		if len(k.keys) >= maxKnown {
			return
		}
		if k.keys == nil {
			k.keys = make(map[Key]*exhausted)
		}
		e = &exhausted{}
		k.keys[key] = e
		k.filled.Store(true)
	}
	for _, c := range counters {
		if s := find(e.used, c.Name); s == nil {
			e.used = append(e.used, seen{c.Name, c.Used})
		} else {
			s.n = max(s.n, c.Used)
		}
	}
	if !admitted && asked > 0 {
		if s := find(e.asked, route); s == nil {
			e.asked = append(e.asked, seen{route, asked})
		} else {
			s.n = min(s.n, asked)
		}
	}
}

func anyExhausted(counters []Counter) bool {
	for _, c := range counters {
		if c.Remaining() == 0 {
			return true
		}
	}
	return false
}
