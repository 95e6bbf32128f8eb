package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/snapshot"
)

// MaxRowAge is the default maximum age of the rows in a RowCache. A change to a row takes
// effect in every process within this time.
const MaxRowAge = snapshot.MaxAge

// ErrRowsUnread is the error of a RowCache that has never read its rows.
var ErrRowsUnread = errors.New("the rows of the limits table have not been read yet; the default limits apply")

// RowCacheConfig tunes a RowCache. Its zero value is ready to use.
type RowCacheConfig = snapshot.Config

// RowCache keeps the rows of a RowStore in memory. It is safe for concurrent use. While the
// store cannot be read, the rows of the last successful read apply, if there was one.
type RowCache struct {
	rows *snapshot.Cache[readRows]
}

type readRows struct {
	table   *Rows
	invalid error // InvalidRows, or nil
}

// NewRowCache returns a RowCache that has read nothing yet.
func NewRowCache(store RowStore, cfg RowCacheConfig) (*RowCache, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store of rows is required")
	}
	rows, err := snapshot.New(func(ctx context.Context) (r readRows, err error) {
		rows, err := store.List(ctx)
		if invalid, ok := errors.AsType[InvalidRows](err); ok {
			r.invalid, err = invalid, nil
		}
		if err == nil {
			r.table, err = NewRows(rows)
		}
		return r, err
	}, cfg)
	if err != nil {
		return nil, fmt.Errorf("rows of limits: %w", err)
	}
	return &RowCache{rows}, nil
}

// Value returns the rows in memory, without reading the store. It is nil if c is nil or has read
// no rows yet.
func (c *RowCache) Value() *Rows {
	if c == nil {
		return nil
	}
	return c.rows.Value().table
}

// Refresh must be called before each request. It reads the rows when they are due; see
// [snapshot.Cache.Refresh].
//
// It returns nil if the rows are recent enough and all valid. If some rows are invalid, it
// returns InvalidRows, and only the valid rows apply. Any other error says why the rows could
// not be refreshed in time, and matches ErrRowsUnread if they have never been read. Value may be
// called even after an error. Refresh does nothing if c is nil.
func (c *RowCache) Refresh(ctx context.Context) error {
	if c == nil {
		return nil
	}
	err := c.rows.Refresh(ctx)
	stale, ok := errors.AsType[*snapshot.Stale](err)
	switch {
	case !ok:
		return c.rows.Value().invalid
	case stale.ReadAt.IsZero():
		return errors.Join(ErrRowsUnread, stale.Err)
	}
	return errors.Join(fmt.Errorf("the rows of the limits table were last read at %s and still apply", stale.ReadAt.UTC().Format(time.RFC3339)), stale.Err)
}
