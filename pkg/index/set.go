package index

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"sluice/pkg/record"
	"sluice/pkg/snapshot"
)

// Set holds declarations. Its zero value is empty. It does not change.
type Set struct {
	all    []Declaration
	byType map[owner][]Declaration
}

type owner struct{ workspace, typ string }

// NewSet returns a Set of declarations.
func NewSet(all []Declaration) Set {
	s := Set{all, make(map[owner][]Declaration)}
	for _, d := range all {
		o := owner{d.Workspace, d.Type}
		s.byType[o] = append(s.byType[o], d)
	}
	return s
}

// Of returns the declarations of a type. The caller must not change them.
func (s Set) Of(workspace, typ string) []Declaration { return s.byType[owner{workspace, typ}] }

// All returns all declarations. The caller must not change them.
func (s Set) All() []Declaration { return s.all }

// In returns the declarations of a workspace.
func (s Set) In(workspace string) []Declaration {
	return slices.DeleteFunc(slices.Clone(s.all), func(d Declaration) bool { return d.Workspace != workspace })
}

// Source returns the declarations that apply. Implementations are safe for concurrent use.
type Source interface {
	// Refresh must be called before a request, and lets At return a Set.
	Refresh(ctx context.Context) error

	// At returns the declarations that apply at a time. The error has kind Unavailable if they
	// cannot be told.
	At(t time.Time) (Set, error)
}

// Cache is a Source with the declarations of a Store, which other processes may change. They
// take effect within snapshot.MaxAge. If they cannot be read for as long, At returns an error,
// because writers would not know which keys to add, and queries would not know which are there.
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

// Refresh implements Source.
func (c *Cache) Refresh(ctx context.Context) error { return unknown(c.sets.Refresh(ctx)) }

// At implements Source.
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

// Current is a Source with declarations that only this process changes. Its zero value has none.
type Current struct {
	set atomic.Pointer[Set]
}

// Store replaces the declarations.
func (c *Current) Store(s Set) { c.set.Store(&s) }

// Load returns the declarations.
func (c *Current) Load() Set {
	if s := c.set.Load(); s != nil {
		return *s
	}
	return Set{}
}

// Refresh implements Source.
func (c *Current) Refresh(context.Context) error { return nil }

// At implements Source.
func (c *Current) At(time.Time) (Set, error) { return c.Load(), nil }
