package snapshot

import (
	"context"
	"sync"
)

// The most entries of each generation of a Keyed.
const (
	maxKnown  = 1 << 15
	maxOthers = 1 << 12
)

// Keyed keeps a Cache for each key. It also remembers keys for which there is nothing, so that
// each key is read once per maximum age. It keeps at least the 32,768 keys that were used last, of
// those that exist, and the last 4,096 others. It is safe for concurrent use.
type Keyed[T any] struct {
	load func(ctx context.Context, key string) (value T, exists bool, err error)
	cfg  Config

	mu     sync.Mutex
	known  generations[T] // keys that exist
	others generations[T] // apart, so that guessed keys cannot evict those that exist
}

// NewKeyed returns a Keyed that has read nothing yet. If load finds nothing for a key, it returns
// the value for an absent key, false and nil.
func NewKeyed[T any](load func(ctx context.Context, key string) (value T, exists bool, err error), cfg Config) (*Keyed[T], error) {
	cfg, err := cfg.checked()
	return &Keyed[T]{load: load, cfg: cfg, known: generations[T]{most: maxKnown}, others: generations[T]{most: maxOthers}}, err
}

// Get is like [Cache.Get] for one key. A key that exists is read again in the background before its
// copy is too old.
func (k *Keyed[T]) Get(ctx context.Context, key string) (T, error) {
	c, exists := k.cache(key)
	if exists {
		c.renew(ctx)
	}
	return c.Get(ctx)
}

// Known reports whether Get finds the key, as it has done before, or need not read to find that there
// is nothing for it.
func (k *Keyed[T]) Known(key string) bool {
	k.mu.Lock()
	c := k.known.get(key)
	exists := c != nil
	if !exists {
		c = k.others.get(key)
	}
	k.mu.Unlock()
	if exists || c == nil {
		return exists
	}
	_, err := c.At(c.Now())
	return err == nil
}

func (k *Keyed[T]) cache(key string) (c *Cache[T], exists bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.known.get(key); c != nil {
		return c, true
	}
	if c := k.others.get(key); c != nil {
		return c, false
	}
	c = &Cache[T]{cfg: k.cfg}
	c.load = func(ctx context.Context) (T, error) {
		value, exists, err := k.load(ctx, key)
		if exists && err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.others.remove(key)
			k.known.put(key, c)
		}
		return value, err
	}
	k.others.put(key, c)
	return c, false
}

// generations holds at most twice as many entries as most. When the young ones are that many, they
// become old, and the old ones, which have not been used since the last time, are forgotten.
type generations[T any] struct {
	most       int
	young, old map[string]*Cache[T]
}

// get returns nil if there is no such entry.
func (g *generations[T]) get(key string) *Cache[T] {
	c := g.young[key]
	if c == nil && g.old[key] != nil {
		c = g.old[key]
		g.put(key, c)
	}
	return c
}

func (g *generations[T]) put(key string, c *Cache[T]) {
	if g.young == nil || len(g.young) >= g.most && g.young[key] == nil {
		g.old, g.young = g.young, make(map[string]*Cache[T])
	}
	delete(g.old, key)
	g.young[key] = c
}

func (g *generations[T]) remove(key string) {
	delete(g.young, key)
	delete(g.old, key)
}

func (g *generations[T]) size() int { return len(g.young) + len(g.old) }
