// Package memstore keeps rate limit counters in the memory of one process.
package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

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

// Store is a ratelimit.Store and a ratelimit.UsageStore. An address takes some 120
// bytes in each class that it uses, 230 from its second window on, and is dropped when there is need of its place
// and it was idle for four seconds: so there are never more than three times those
// that are not idle. What an address used before is kept for the rest of the last
// minute, as long as it is no more than 32,768 addresses, classes and windows
// together. It is safe for concurrent use.
type Store struct {
	shards [shards]shard
	names  registry
	seed   maphash.Seed
}

// shard holds the addresses of one hash. What most charges look at comes first,
// in one line of the processor's cache.
type shard struct {
	mu     sync.Mutex
	newest ratelimit.Window
	table  []place // by hash, with linear probing; its length is a power of two
	none   int64   // the counter of no rule, which nothing is added to

	count   int // of items in table
	names   *registry
	history []record
	oldest  int // in history, once it is full
	_       [4]uint64
}

// place is one of a table; without an item it is free.
type place struct {
	hash uint64
	item *item
}

// inline is how many counters an item has: those of a client that uses two routes
// of a class.
const inline = 3

// names are those of an item's counters; "" where there is none. Items of a class
// share them, and with them the places of the rules that were looked for: a service
// has few routes, and rules of its own for each.
type names struct {
	class  ratelimit.Class
	list   [inline]string
	places atomic.Pointer[[]places] // not changed, but replaced
}

// places are those of a route's rules in a list of names.
type places struct {
	rules         *ratelimit.Rule // the first
	count         int             // of rules
	first, second int8
}

// maxPlaces is how many routes names remember the places of.
const maxPlaces = 8

// registry has the names of all items of a Store.
type registry struct {
	mu  sync.Mutex
	all []*names
}

// item holds counters of one address and class. It is a line of the processor's
// cache.
type item struct {
	address string
	names   *names
	now     window // the newest
	rest    *rest  // what most charges need not look at; may be nil
}

// rest is what else an item holds.
type rest struct {
	before [retained]window // each at its number modulo their number
	more   *item            // further counters; nil for none
}

// window holds an item's counters in one window, in the order of its names.
type window struct {
	at   ratelimit.Window
	used [inline]int64
}

// record is what is left of a window that an item had no place for any more.
type record struct {
	address string
	names   *names
	window
}

// New makes an empty Store.
func New() *Store {
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].names = &s.names
	}
	return s
}

// Immediate implements ratelimit.Immediate.
func (s *Store) Immediate() {}

// find is where key belongs. The hashes of an address in two classes differ.
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
	if key.Window != sh.newest {
		if err := sh.enter(key.Window); err != nil {
			sh.mu.Unlock()
			return used, false, err
		}
	}
	it := sh.lookup(key, hash)
	if it == nil {
		it = sh.add(key, hash)
	}
	first, second := sh.counters(it, key.Window, rules)
	used = ratelimit.Amounts{First: *first, Second: *second}
	admitted = rules[0].Fits(used.First, cost.First) && (len(rules) == 1 || rules[1].Fits(used.Second, cost.Second))
	if admitted {
		used.First += cost.First
		used.Second += cost.Second
		*first, *second = used.First, used.Second
	}
	sh.mu.Unlock()
	return used, admitted, nil
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
		case p.hash == hash && p.item.address == key.Address:
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
	it := sh.newItem(key)
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
			for it := p.item; it != nil; it = it.more() {
				for w := range it.windows() {
					sh.remember(it, w)
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
	for ; it != nil; it = it.more() {
		if sh.newest-it.now.at <= retained {
			return false
		}
	}
	return true
}

// more is the item of further counters; nil for none.
func (it *item) more() *item {
	if it.rest == nil {
		return nil
	}
	return it.rest.more
}

// windows are all that the item has.
func (it *item) windows() iter.Seq[*window] {
	return func(yield func(*window) bool) {
		if !yield(&it.now) || it.rest == nil {
			return
		}
		for i := range it.rest.before {
			if !yield(&it.rest.before[i]) {
				return
			}
		}
	}
}

// newItem makes an item without counters.
func (sh *shard) newItem(key ratelimit.Key) *item {
	return &item{address: key.Address, names: sh.names.get(key.Class, [inline]string{}), now: window{at: key.Window}}
}

// get is where the names of that list are.
func (r *registry) get(class ratelimit.Class, list [inline]string) *names {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.all {
		if n.class == class && n.list == list {
			return n
		}
	}
	n := &names{class: class, list: list}
	n.places.Store(new([]places))
	r.all = append(r.all, n)
	return n
}

// counters are those of one or two rules in window w; beside one it is none.
func (sh *shard) counters(it *item, w ratelimit.Window, rules []ratelimit.Rule) (first, second *int64) {
	known := *it.names.places.Load()
	for i := range known {
		if p := &known[i]; p.rules == &rules[0] && p.count == len(rules) {
			used := &sh.window(it, w).used
			if p.count == 1 {
				return &used[p.first], &sh.none
			}
			return &used[p.first], &used[p.second]
		}
	}
	first, one := sh.counter(it, w, rules[0].Counter)
	second, other := &sh.none, one
	if len(rules) == ratelimit.MaxRules {
		second, other = sh.counter(it, w, rules[1].Counter)
	}
	known = *it.names.places.Load() // of the names that it has now
	if one < inline && other < inline && len(known) < maxPlaces {
		more := append(slices.Clip(known), places{rules: &rules[0], count: len(rules), first: int8(one), second: int8(other)})
		it.names.places.Store(&more)
	}
	return first, second
}

// counter is a counter of it in window w, made if there is none, and its place
// among all those of it.
func (sh *shard) counter(it *item, w ratelimit.Window, name string) (used *int64, place int) {
	for ; ; it, place = it.rest.more, place+inline {
		for i, n := range it.names.list {
			if n == "" {
				list := it.names.list
				list[i] = name
				it.names = sh.names.get(it.names.class, list)
				n = name
			}
			if n == name {
				return &sh.window(it, w).used[i], place + i
			}
		}
		if it.more() == nil {
			it.needsRest().more = sh.newItem(ratelimit.Key{Address: it.address, Class: it.names.class, Window: w})
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
	place := func(w ratelimit.Window) *window { return &it.needsRest().before[uint64(w)%retained] }
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

// needsRest is the item's rest, made if there is none.
func (it *item) needsRest() *rest {
	if it.rest == nil {
		it.rest = &rest{}
	}
	return it.rest
}

// remember puts a window of it into history, in place of the oldest there, if that
// is older: where history does not reach back a second it is no use to renew it.
func (sh *shard) remember(it *item, w *window) {
	if w.used == [inline]int64{} || sh.newest-w.at >= ratelimit.Window(ratelimit.UsageWindows) {
		return
	}
	switch {
	case len(sh.history) < maxHistory:
		sh.history = append(sh.history, record{it.address, it.names, *w})
	case sh.history[sh.oldest].at < w.at:
		sh.history[sh.oldest] = record{it.address, it.names, *w}
		sh.oldest = (sh.oldest + 1) % maxHistory
	}
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
		for i, name := range names.list {
			if w.used[i] > 0 {
				used[name] = w.used[i]
			}
		}
	}
	for i := range sh.history {
		if r := &sh.history[i]; r.at == key.Window && r.names.class == key.Class && r.address == key.Address {
			add(r.names, &r.window)
		}
	}
	for it := sh.lookup(key, hash); it != nil; it = it.more() {
		for w := range it.windows() {
			add(it.names, w)
		}
	}
	return used
}
