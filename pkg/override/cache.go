package override

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice/pkg/ratelimit"
)

// MaxAge is the age at which a Cache reads its rows again unless configured. A
// change takes effect everywhere within this time.
const MaxAge = time.Minute

const (
	readTimeout = time.Second     // of a read, and so the longest wait of Refresh
	retryAfter  = 5 * time.Second // between a read that failed and the next one
)

// ErrUnread is the error of a Cache that has never read its rows.
var ErrUnread = errors.New("the rows of the limits table have not been read yet; the default limits apply")

// CacheConfig tunes a Cache. Its zero value is ready to use.
type CacheConfig struct {
	MaxAge time.Duration    // at which rows are read again, MaxAge if 0
	Now    func() time.Time // clock, time.Now if nil
}

// Cache holds the rows of a Store for the requests of a process. It is safe for
// concurrent use.
//
// Refresh reads the rows in the background when they have three quarters of the
// maximum age. A request waits for the rows only if they have the maximum age, for
// example because Lambda had frozen the process. If the store cannot
// be read, the last rows still apply, and no rows before the first success.
type Cache struct {
	store  Store
	maxAge time.Duration
	now    func() time.Time
	reads  singleflight.Group

	mu    sync.Mutex
	known state
}

// state is what a Cache knows.
type state struct {
	table    *Table
	readAt   time.Time // when the read of table began; zero before the first read
	failedAt time.Time // when the last read failed; zero if it succeeded
	err      error     // why it failed
}

// NewCache returns a Cache of store that has not read any rows.
func NewCache(store Store, cfg CacheConfig) (*Cache, error) {
	if store == nil {
		return nil, errors.New("override: a store is required")
	}
	if cfg.MaxAge < 0 {
		return nil, fmt.Errorf("override: the maximum age %v is negative", cfg.MaxAge)
	}
	c := &Cache{store: store, maxAge: cfg.MaxAge, now: cfg.Now}
	if c.maxAge == 0 {
		c.maxAge = MaxAge
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Limits returns the limits of an address as ratelimit.ParseAddress returns it.
// Fields are zero if no row sets them. It does not read the store.
func (c *Cache) Limits(address string) ratelimit.Limits {
	r, _ := c.state().table.Find(address, c.wallClock())
	return r.Limits()
}

// Refresh begins to read the rows if they have three quarters of the maximum age. It
// must be called before each use of Limits. If the rows have the maximum age, it waits
// for the read, for up to a second or until ctx is done. After a read that failed, it
// neither reads nor waits for 5 seconds. It returns nil if the rows are not too old, and otherwise an error that
// says why: ErrUnread if no rows have been read.
func (c *Cache) Refresh(ctx context.Context) error {
	// A read that began before the process was frozen is followed by another one.
	for range 2 {
		s, now := c.state(), c.wallClock()
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
	return c.tooOld()
}

// read reads the rows from the store.
func (c *Cache) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s := state{readAt: c.wallClock()}
	rows, err := c.store.List(ctx)
	if err == nil {
		s.table, err = NewTable(rows)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.known.failedAt, c.known.err = c.wallClock(), err
		return err
	}
	c.known = s
	return nil
}

func (c *Cache) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// tooOld returns why the rows are too old, or nil if they are not.
func (c *Cache) tooOld() error {
	s := c.state()
	switch {
	case s.readAt.IsZero():
		return errors.Join(ErrUnread, s.err)
	case !within(c.maxAge, s.readAt, c.wallClock()):
		return errors.Join(fmt.Errorf("the rows of the limits table were last read at %s and still apply", s.readAt.UTC().Format(time.RFC3339)), s.err)
	}
	return nil
}

// within reports whether now is less than d after t. It is not if t is zero, or
// later than now, because the clock was set back.
func within(d time.Duration, t, now time.Time) bool {
	age := now.Sub(t)
	return !t.IsZero() && age >= 0 && age < d
}

// wallClock returns the time without its monotonic reading: a function instance
// may be frozen between two requests, and its monotonic clock with it.
func (c *Cache) wallClock() time.Time { return c.now().Round(0) }
