package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// MaxRowAge is the default maximum age of the rows in a RowCache. A change takes effect in
// every process within this time.
const MaxRowAge = time.Minute

const (
	rowReadTimeout = time.Second     // maximum duration of a read; Refresh waits for up to two reads
	rowRetryAfter  = 5 * time.Second // time from a failed read to the next read
)

// ErrRowsUnread is the error of a RowCache that has never read its rows.
var ErrRowsUnread = errors.New("the rows of the limits table have not been read yet; the default limits apply")

// RowCacheConfig tunes a RowCache. Its zero value is ready to use.
type RowCacheConfig struct {
	MaxAge time.Duration    // maximum age of the rows; 0 means MaxRowAge
	Now    func() time.Time // clock; nil means time.Now
}

// RowCache keeps the rows of a RowStore in memory. It is safe for concurrent use.
//
// Refresh reads the rows in the background once they have reached three quarters of the
// maximum age. A request waits for them only at the maximum age, for example because Lambda
// had frozen the process. While the store cannot be read, the rows of the last successful
// read apply, and none before the first.
type RowCache struct {
	store  RowStore
	maxAge time.Duration
	now    func() time.Time
	reads  singleflight.Group

	mu    sync.Mutex
	known rowState
}

// rowState holds the rows of a RowCache and the result of its last read.
type rowState struct {
	table    *Rows
	readAt   time.Time // when the read that returned the rows of table began; zero before the first successful read
	failedAt time.Time // when the last read failed; zero if it succeeded
	err      error     // error of the last read
	invalid  error     // InvalidRows of the read that returned the rows of table; nil if all are valid
}

// NewRowCache returns a RowCache that has not read any rows yet.
func NewRowCache(store RowStore, cfg RowCacheConfig) (*RowCache, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store of rows is required")
	}
	if cfg.MaxAge < 0 {
		return nil, fmt.Errorf("ratelimit: the maximum age %v of rows is negative", cfg.MaxAge)
	}
	c := &RowCache{store: store, maxAge: cmp.Or(cfg.MaxAge, MaxRowAge), now: cfg.Now}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Limits returns the limits of an identity. A field is zero if no row sets it. Limits does not
// read the store.
func (c *RowCache) Limits(identity string) Limits {
	r, _ := c.state().table.Find(identity, c.wallClock())
	return r.Limits()
}

// Counted is [Rows.Counted] with the current rows. It does not read the store.
func (c *RowCache) Counted(address, keyID string) string {
	return c.state().table.Counted(address, keyID, c.wallClock())
}

// Refresh must be called before each request. It starts to read the rows if they have reached
// three quarters of the maximum age. At the maximum age, it waits until the read ends or ctx
// is done. A read takes at most one second. For 5 seconds after a failed read, Refresh neither
// reads nor waits.
//
// Refresh returns nil if the rows are younger than the maximum age and valid. InvalidRows means
// that some are not, and that the others apply. Any other error says why the rows are older,
// and matches ErrRowsUnread if no read has succeeded. Limits may still be called after an
// error.
func (c *RowCache) Refresh(ctx context.Context) error {
	// If the first read began before the process was frozen, its rows may be too old.
	// Then a second read is needed.
	for range 2 {
		s, now := c.state(), c.wallClock()
		if within(c.maxAge*3/4, s.readAt, now) {
			return s.invalid
		}
		if within(rowRetryAfter, s.failedAt, now) {
			break
		}
		reading := c.reads.DoChan("", func() (any, error) { return nil, c.read(context.WithoutCancel(ctx)) })
		if within(c.maxAge, s.readAt, now) {
			return s.invalid
		}
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	return c.trouble()
}

func (c *RowCache) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rowReadTimeout)
	defer cancel()
	s := rowState{readAt: c.wallClock()}
	rows, err := c.store.List(ctx)
	if invalid, ok := errors.AsType[InvalidRows](err); ok {
		s.invalid, err = invalid, nil
	}
	if err == nil {
		s.table, err = NewRows(rows)
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

func (c *RowCache) state() rowState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// trouble says why the rows are too old or incomplete, or returns nil.
func (c *RowCache) trouble() error {
	s := c.state()
	switch {
	case s.readAt.IsZero():
		return errors.Join(ErrRowsUnread, s.err)
	case !within(c.maxAge, s.readAt, c.wallClock()):
		return errors.Join(fmt.Errorf("the rows of the limits table were last read at %s and still apply", s.readAt.UTC().Format(time.RFC3339)), s.err)
	}
	return s.invalid
}

// within reports whether less than d has passed from t to now. It has not if t is zero, or
// after now because the clock was set back.
func within(d time.Duration, t, now time.Time) bool {
	age := now.Sub(t)
	return !t.IsZero() && age >= 0 && age < d
}

// wallClock returns the time without its monotonic reading, because the monotonic clock
// stops while Lambda freezes the process between two requests.
func (c *RowCache) wallClock() time.Time { return c.now().Round(0) }
