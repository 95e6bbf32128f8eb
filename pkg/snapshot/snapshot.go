// Package snapshot keeps copies of data in memory and reads the data again as they age.
package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// MaxAge is the default maximum age of a copy. A change takes effect in every process within
// this time.
const MaxAge = time.Minute

// retryAfter is how long Refresh waits after a failed read before the next one.
const retryAfter = 5 * time.Second

// Config tunes a Cache. Its zero value is ready to use.
type Config struct {
	MaxAge  time.Duration    // the maximum age of a copy; the constant MaxAge by default
	Timeout time.Duration    // for one read; 1 s by default
	Now     func() time.Time // time.Now by default
}

// checked returns c with its defaults set, or an error if a duration is negative.
func (c Config) checked() (Config, error) {
	if c.MaxAge < 0 || c.Timeout < 0 {
		return Config{}, fmt.Errorf("snapshot: the maximum age %v or the timeout %v is negative", c.MaxAge, c.Timeout)
	}
	c.MaxAge, c.Timeout = cmp.Or(c.MaxAge, MaxAge), cmp.Or(c.Timeout, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// Cache keeps the data that its load function reads. It is safe for concurrent use.
//
// There are two ways to use it. After Refresh, the copy is there without a call, and a caller may
// use one that is too old. Get returns nothing that is too old.
type Cache[T any] struct {
	load  func(context.Context) (T, error)
	cfg   Config
	reads singleflight.Group

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
	cfg, err := cfg.checked()
	return &Cache[T]{load: load, cfg: cfg}, err
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
func (c *Cache[T]) Now() time.Time { return c.cfg.Now().Round(0) }

// At returns the copy if it was younger than the maximum age at t, and otherwise a *Stale.
func (c *Cache[T]) At(t time.Time) (T, error) {
	s := c.state()
	if !within(c.cfg.MaxAge, s.readAt, t.Round(0)) {
		return s.value, &Stale{s.readAt, s.err}
	}
	return s.value, nil
}

// Refresh must be called before each request. It starts a read in the background if the copy has
// reached three quarters of the maximum age. At the maximum age, which the copy may have reached
// because Lambda had frozen the process, Refresh also waits until the read ends or ctx is done. For
// 5 seconds after a failed read, it neither reads nor waits. It returns a *Stale unless the copy is
// younger than the maximum age.
func (c *Cache[T]) Refresh(ctx context.Context) error {
	// If a read began before the process was frozen, its result may already be too old.
	for range 2 {
		s, now := c.state(), c.Now()
		if within(c.cfg.MaxAge*3/4, s.readAt, now) {
			return nil
		}
		if within(retryAfter, s.failedAt, now) {
			break
		}
		reading := c.read(ctx)
		if within(c.cfg.MaxAge, s.readAt, now) {
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

// Get returns the copy if it is younger than the maximum age, and otherwise the result of a read.
// It fails if the read fails or ctx is done first.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	if s := c.state(); within(c.cfg.MaxAge, s.readAt, c.Now()) {
		return s.value, nil
	}
	var none T
	select {
	case r := <-c.read(ctx):
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// renew starts a read in the background if the copy has reached three quarters of the maximum age. For
// 5 seconds after a failed read it does not.
func (c *Cache[T]) renew(ctx context.Context) {
	s, now := c.state(), c.Now()
	if within(c.cfg.MaxAge, s.readAt, now) && !within(c.cfg.MaxAge*3/4, s.readAt, now) && !within(retryAfter, s.failedAt, now) {
		c.read(ctx)
	}
}

// read starts a read, or joins the one in progress. A read continues even if the caller that began
// it stops waiting.
func (c *Cache[T]) read(ctx context.Context) <-chan singleflight.Result {
	return c.reads.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
		defer cancel()
		at := c.Now()
		value, err := c.loaded(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.known.failedAt, c.known.err = c.Now(), err
			return nil, err
		}
		c.known = state[T]{value: value, readAt: at}
		return value, nil
	})
}

// loaded turns a panic in load into an error, because a panic within singleflight would end the
// process.
func (c *Cache[T]) loaded(ctx context.Context) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.load(ctx)
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
