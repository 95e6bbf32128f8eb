// Package memstore keeps rate limit counters in the memory of one process.
package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"

	"sluice/pkg/ratelimit"
)

const (
	// retained is how many windows before the newest an address has at hand, so
	// that a charge that is under way as its window ends still finds its counters.
	retained = 3

	// shards are locked apart from each other.
	shards = 64

	// maxHistory bounds what each shard keeps of older windows for an overview of
	// the last minute: 3.4 MB in all.
	maxHistory = 512

	// minTable is the length of a shard's table at first.
	minTable = 64
)

// errLate is the error of a charge in a window whose counters may be gone.
var errLate = errors.New("the window is long over")

// Store is a ratelimit.Store and a ratelimit.UsageStore. An address takes some 250
// bytes in each class that it uses, and is dropped when there is need of its place
// and it was idle for four seconds: so there are never more than three times those
// that are not idle. What an address used before is kept for the rest of the last
// minute, as long as it is no more than 32,768 addresses, classes and windows
// together. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	shards [shards]shard
}

// shard holds the addresses of one hash.
type shard struct {
	mu      sync.Mutex
	newest  ratelimit.Window
	table   []place // by hash, with linear probing; its length is a power of two
	count   int     // of items in it
	names   []*names
	history []record
	oldest  int // in history, once it is full
}

// place is one of a table; without an item it is free.
type place struct {
	hash uint64
	item *item
}

// inline is how many counters an item has: those of a client that uses two routes
// of a class.
const inline = 3

// names are those of an item's counters; "" where there is none. Items share them.
type names [inline]string

// item holds counters of one address and class. What a charge looks at is a line
// of the processor's cache.
type item struct {
	address string
	class   ratelimit.Class
	names   *names
	now     window // the newest

	before [retained]window // each at its number modulo their number
	more   *item            // further counters
	_      [3]uint64        // so that items begin with a line
}

// window holds an item's counters in one window, in the order of its names.
type window struct {
	at   ratelimit.Window
	used [inline]int64
}

// record is what is left of a window that an item had no place for any more.
type record struct {
	address string
	class   ratelimit.Class
	names   *names
	window
}

// New makes an empty Store.
func New() *Store { return &Store{seed: maphash.MakeSeed()} }

// Immediate implements ratelimit.Immediate.
func (s *Store) Immediate() {}

// find is where key belongs.
func (s *Store) find(key ratelimit.Key) (sh *shard, hash uint64) {
	hash = maphash.String(s.seed, key.Address)
	return &s.shards[hash%shards], hash/shards + uint64(key.Class)
}

// Charge implements ratelimit.Store. It fails when ctx is done, and for a window
// that is more than three, and no more than a minute, before the newest one: a
// clock that was set back by more than that counts anew.
func (s *Store) Charge(ctx context.Context, key ratelimit.Key, rules []ratelimit.Rule, cost ratelimit.Amounts) (used ratelimit.Amounts, admitted bool, err error) {
	if err := ctx.Err(); err != nil {
		return used, false, err
	}
	sh, hash := s.find(key)
	sh.mu.Lock()
	used, admitted, err = sh.charge(key, hash, rules, cost)
	sh.mu.Unlock()
	return used, admitted, err
}

// charge is Charge in a shard that is locked.
func (sh *shard) charge(key ratelimit.Key, hash uint64, rules []ratelimit.Rule, cost ratelimit.Amounts) (used ratelimit.Amounts, admitted bool, err error) {
	if key.Window != sh.newest {
		if err := sh.enter(key.Window); err != nil {
			return used, false, err
		}
	}
	it := sh.lookup(key, hash)
	if it == nil {
		it = sh.add(key, hash)
	}
	first, second := sh.counter(it, key.Window, rules[0].Counter), new(int64)
	admitted = rules[0].Fits(*first, cost.First)
	if len(rules) == ratelimit.MaxRules {
		second = sh.counter(it, key.Window, rules[1].Counter)
		admitted = admitted && rules[1].Fits(*second, cost.Second)
	}
	if admitted {
		*first += cost.First
		*second += cost.Second
	}
	return ratelimit.Amounts{First: *first, Second: *second}, admitted, nil
}

// enter makes w, which is another than the newest window, that, if it is later.
func (sh *shard) enter(w ratelimit.Window) error {
	switch behind := sh.newest - w; {
	case behind < 0 || behind > ratelimit.Window(ratelimit.UsageWindows):
		sh.newest = w
	case behind > retained:
		return errLate
	}
	return nil
}

// lookup finds the item of key; nil if there is none.
func (sh *shard) lookup(key ratelimit.Key, hash uint64) *item {
	mask := uint64(len(sh.table) - 1)
	for i := hash; len(sh.table) > 0; i++ {
		switch p := &sh.table[i&mask]; {
		case p.item == nil:
			return nil
		case p.hash == hash && p.item.class == key.Class && p.item.address == key.Address:
			return p.item
		}
	}
	return nil
}

// add makes the item of key, once there is room for it.
func (sh *shard) add(key ratelimit.Key, hash uint64) *item {
	if sh.count >= len(sh.table)/4*3 {
		sh.rebuild()
	}
	it := sh.newItem(key.Address, key.Class)
	sh.put(place{hash, it})
	return it
}

// put puts p into the table, which has a free place.
func (sh *shard) put(p place) {
	mask := uint64(len(sh.table) - 1)
	i := p.hash & mask
	for sh.table[i].item != nil {
		i = (i + 1) & mask
	}
	sh.table[i] = p
	sh.count++
}

// rebuild drops the items that are idle, and gives the others a table of which
// they fill no more than half.
func (sh *shard) rebuild() {
	old := sh.table
	busy := old[:0]
	for _, p := range old {
		switch {
		case p.item == nil:
		case sh.idle(p.item):
			for it := p.item; it != nil; it = it.more {
				sh.remember(it, &it.now)
				for i := range it.before {
					sh.remember(it, &it.before[i])
				}
			}
		default:
			busy = append(busy, p)
		}
	}
	length := minTable
	for length < 2*len(busy) {
		length *= 2
	}
	sh.table, sh.count = make([]place, length), 0
	for _, p := range busy {
		sh.put(p)
	}
}

// idle reports whether a charge would find none of the item's windows.
func (sh *shard) idle(it *item) bool {
	for ; it != nil; it = it.more {
		if sh.newest-it.now.at <= retained {
			return false
		}
	}
	return true
}

// newItem makes an item without counters.
func (sh *shard) newItem(address string, class ratelimit.Class) *item {
	return &item{address: address, class: class, names: sh.named(names{})}
}

// named is where the shard keeps these names. There are few: a service has few
// routes.
func (sh *shard) named(n names) *names {
	for _, known := range sh.names {
		if *known == n {
			return known
		}
	}
	sh.names = append(sh.names, &n)
	return &n
}

// counter is a counter of it in window w, made if there is none.
func (sh *shard) counter(it *item, w ratelimit.Window, name string) *int64 {
	for ; ; it = it.more {
		for i, n := range it.names {
			if n == "" {
				with := *it.names
				with[i] = name
				it.names = sh.named(with)
				n = name
			}
			if n == name {
				return &sh.window(it, w).used[i]
			}
		}
		if it.more == nil {
			it.more = sh.newItem(it.address, it.class)
		}
	}
}

// window is the window w of it.
func (sh *shard) window(it *item, w ratelimit.Window) *window {
	if it.now.at == w {
		return &it.now
	}
	return sh.move(it, w)
}

// move makes w the newest window of it, unless it is one of those before.
func (sh *shard) move(it *item, w ratelimit.Window) *window {
	place := func(w ratelimit.Window) *window { return &it.before[uint64(w)%retained] }
	if late := it.now.at - w; late > 0 && late <= retained {
		b := place(w)
		if b.at != w {
			sh.remember(it, b)
			*b = window{at: w}
		}
		return b
	}
	b := place(it.now.at)
	sh.remember(it, b)
	*b = it.now
	it.now = window{at: w}
	return &it.now
}

// remember puts a window of it into history, in place of the oldest there.
func (sh *shard) remember(it *item, w *window) {
	if w.used == [inline]int64{} || sh.newest-w.at >= ratelimit.Window(ratelimit.UsageWindows) {
		return
	}
	r := record{address: it.address, class: it.class, names: it.names, window: *w}
	if len(sh.history) < maxHistory {
		sh.history = append(sh.history, r)
		return
	}
	sh.history[sh.oldest] = r
	sh.oldest = (sh.oldest + 1) % maxHistory
}

// Used implements ratelimit.UsageStore. It fails only when ctx is done.
func (s *Store) Used(ctx context.Context, keys []ratelimit.Key) ([]map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	used := make([]map[string]int64, len(keys))
	for i, key := range keys {
		sh, hash := s.find(key)
		used[i] = sh.used(key, hash)
	}
	return used, nil
}

// used are the counters of key by name; nil where nothing is known.
func (sh *shard) used(key ratelimit.Key, hash uint64) (used map[string]int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	add := func(names *names, w *window) {
		if w.at != key.Window {
			return
		}
		if used == nil {
			used = make(map[string]int64, inline)
		}
		for i, name := range names {
			if w.used[i] > 0 {
				used[name] = w.used[i]
			}
		}
	}
	for i := range sh.history {
		if r := &sh.history[i]; r.at == key.Window && r.class == key.Class && r.address == key.Address {
			add(r.names, &r.window)
		}
	}
	for it := sh.lookup(key, hash); it != nil; it = it.more {
		add(it.names, &it.now)
		for i := range it.before {
			add(it.names, &it.before[i])
		}
	}
	return used
}
