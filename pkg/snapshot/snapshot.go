// Package snapshot keeps a copy of data in memory and refreshes it as it ages.
package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// MaxAge is the default maximum age of a copy. A change takes effect in every process within
// this time.
const MaxAge = time.Minute

const (
	readTimeout = time.Second     // for one read; Refresh waits for two reads at most
	retryAfter  = 5 * time.Second // wait after a failed read before the next one
)

// Config tunes a Cache. Its zero value is ready to use.
type Config struct {
	MaxAge time.Duration    // the maximum age of the copy; the constant MaxAge by default
	Now    func() time.Time // time.Now by default
}

// Cache keeps the data that its load function reads. It is safe for concurrent use.
//
// Refresh starts a read in the background when the copy has reached three quarters of the
// maximum age. A request waits for a read only if the copy has reached the maximum age, for
// example because Lambda had frozen the process.
type Cache[T any] struct {
	load   func(context.Context) (T, error)
	maxAge time.Duration
	now    func() time.Time
	reads  singleflight.Group

	mu    sync.Mutex
	known state[T]
}

type state[T any] struct {
	value    T
	readAt   time.Time // when the read of value began; zero before the first success
	failedAt time.Time // when the last read failed; zero if it succeeded
	err      error     // error of the last read
}

// New returns a Cache that has read nothing yet.
func New[T any](load func(context.Context) (T, error), cfg Config) (*Cache[T], error) {
	if cfg.MaxAge < 0 {
		return nil, fmt.Errorf("snapshot: the maximum age %v is negative", cfg.MaxAge)
	}
	c := &Cache[T]{load: load, maxAge: cmp.Or(cfg.MaxAge, MaxAge), now: cfg.Now}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Stale is the error for a copy that has reached the maximum age.
type Stale struct {
	ReadAt time.Time // zero if no read has succeeded
	Err    error     // error of the last read; nil if it succeeded
}

func (e *Stale) Error() string {
	text := "nothing has been read yet"
	if !e.ReadAt.IsZero() {
		text = "the data was last read at " + e.ReadAt.UTC().Format(time.RFC3339)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Stale) Unwrap() error { return e.Err }

// Value returns the result of the last successful read, however old it is.
func (c *Cache[T]) Value() T { return c.state().value }

// Now returns the time without its monotonic reading, because the monotonic clock stops while
// Lambda freezes the process between two requests.
func (c *Cache[T]) Now() time.Time { return c.now().Round(0) }

// At returns the copy if it was younger than the maximum age at t, and otherwise a *Stale.
func (c *Cache[T]) At(t time.Time) (T, error) {
	s := c.state()
	if !within(c.maxAge, s.readAt, t.Round(0)) {
		return s.value, &Stale{s.readAt, s.err}
	}
	return s.value, nil
}

// Refresh must be called before each request. It starts a read if the copy has reached three
// quarters of the maximum age. At the maximum age, it also waits until the read ends or ctx is
// done. A read takes at most one second. For 5 seconds after a failed read, Refresh neither
// reads nor waits. It returns a *Stale unless the copy is younger than the maximum age.
func (c *Cache[T]) Refresh(ctx context.Context) error {
	// If a read began before the process was frozen, its result may already be too old.
	for range 2 {
		s, now := c.state(), c.Now()
		if within(c.maxAge*3/4, s.readAt, now) {
			return nil
		}
		if within(retryAfter, s.failedAt, now) {
			break
		}
		reading := c.reads.DoChan("", func() (any, error) { return nil, c.read(context.WithoutCancel(ctx)) })
		if within(c.maxAge, s.readAt, now) {
			return nil
		}
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	_, err := c.At(c.Now())
	return err
}

func (c *Cache[T]) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	at := c.Now()
	value, err := c.load(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.known.failedAt, c.known.err = c.Now(), err
		return err
	}
	c.known = state[T]{value: value, readAt: at}
	return nil
}

func (c *Cache[T]) state() state[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// within reports whether less than d has passed from t to now. It is false if t is zero, or
// if t is after now because the clock was set back.
func within(d time.Duration, t, now time.Time) bool {
	age := now.Sub(t)
	return !t.IsZero() && age >= 0 && age < d
}
