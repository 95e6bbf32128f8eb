package index

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"sluice/pkg/record"
	"sluice/pkg/snapshot"
)

// Set is an immutable set of declarations. Its zero value is empty.
type Set struct {
	all    []Declaration
	byType map[owner][]Declaration
}

type owner struct{ workspace, typ string }

func NewSet(all []Declaration) Set {
	s := Set{all, make(map[owner][]Declaration)}
	for _, d := range all {
		o := owner{d.Workspace, d.Type}
		s.byType[o] = append(s.byType[o], d)
	}
	return s
}

// Of returns the declarations of a type. The caller must not change the slice.
func (s Set) Of(workspace, typ string) []Declaration { return s.byType[owner{workspace, typ}] }

// All returns all declarations. The caller must not change the slice.
func (s Set) All() []Declaration { return s.all }

// In returns a new slice with a workspace's declarations.
func (s Set) In(workspace string) []Declaration {
	return slices.DeleteFunc(slices.Clone(s.all), func(d Declaration) bool { return d.Workspace != workspace })
}

// Declarations provides the current declarations. It is safe for concurrent use.
type Declarations interface {
	// Refresh must be called before each request, so that At can return a Set.
	Refresh(ctx context.Context) error

	// At returns the declarations that apply at t, or an error with code Unavailable if they are
	// not known.
	At(t time.Time) (Set, error)
}

// Cache has the Declarations of a Store whose declarations other processes may change. By default, a
// change takes effect within snapshot.MaxAge. If no read has succeeded for that long, At fails,
// because writers and queries would not know which keys should exist.
type Cache struct {
	sets *snapshot.Cache[Set]
}

// NewCache returns a Cache that has read nothing yet.
func NewCache(store Store, cfg snapshot.Config) (*Cache, error) {
	sets, err := snapshot.New(func(ctx context.Context) (Set, error) {
		all, err := store.List(ctx)
		return NewSet(all), err
	}, cfg)
	return &Cache{sets}, err
}

func (c *Cache) Refresh(ctx context.Context) error { return unknown(c.sets.Refresh(ctx)) }

func (c *Cache) At(t time.Time) (Set, error) {
	set, err := c.sets.At(t)
	return set, unknown(err)
}

func unknown(err error) error {
	if err == nil {
		return nil
	}
	return record.UnavailableError("read the indexed attributes", err)
}

// Current has declarations that only this process changes. Its zero value is empty.
type Current struct {
	set atomic.Pointer[Set]
}

func (c *Current) Store(s Set) { c.set.Store(&s) }

func (c *Current) Load() Set {
	if s := c.set.Load(); s != nil {
		return *s
	}
	return Set{}
}

func (c *Current) Refresh(context.Context) error { return nil }

func (c *Current) At(time.Time) (Set, error) { return c.Load(), nil }
