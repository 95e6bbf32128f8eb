package snapshot

import (
	"cmp"
	"context"
	"sync"
)

// maxKeys is the maximum number of entries in each map of a Keyed.
const maxKeys = 1 << 13

// Keyed keeps a Cache for each key. It also remembers keys for which there is nothing, so that
// each key is read once per maximum age, unless more than about 8,000 keys are in use. It is safe
// for concurrent use.
type Keyed[T any] struct {
	load func(ctx context.Context, key string) (value T, exists bool, err error)
	cfg  Config

	mu     sync.Mutex
	known  map[string]*Cache[T] // keys that exist
	others map[string]*Cache[T] // a separate map, so that guessed keys cannot evict those that exist
}

// NewKeyed returns a Keyed that has read nothing yet. If load finds nothing for a key, it returns
// the value for an absent key, false and nil.
func NewKeyed[T any](load func(ctx context.Context, key string) (value T, exists bool, err error), cfg Config) (*Keyed[T], error) {
	cfg, err := cfg.checked()
	return &Keyed[T]{load: load, cfg: cfg, known: make(map[string]*Cache[T]), others: make(map[string]*Cache[T])}, err
}

// Get is like [Cache.Get] for one key.
func (k *Keyed[T]) Get(ctx context.Context, key string) (T, error) { return k.cache(key).Get(ctx) }

func (k *Keyed[T]) cache(key string) *Cache[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := cmp.Or(k.known[key], k.others[key]); c != nil {
		return c
	}
	c := &Cache[T]{cfg: k.cfg}
	c.load = func(ctx context.Context) (T, error) {
		value, exists, err := k.load(ctx, key)
		if exists && err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.others, key)
			put(k.known, key, c)
		}
		return value, err
	}
	put(k.others, key, c)
	return c
}

// put empties a full map first. That is simpler than evicting entries, which expire soon anyway.
func put[T any](entries map[string]*Cache[T], key string, c *Cache[T]) {
	if len(entries) >= maxKeys && entries[key] == nil {
		clear(entries)
	}
	entries[key] = c
}
