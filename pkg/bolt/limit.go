package bolt

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sluice/pkg/ratelimit"

	"go.etcd.io/bbolt"
)

// Limits is an ratelimit.RowManager. It is safe for concurrent use, even by several
// processes.
//
// If the context is already done when a method is called, the method does nothing
// and returns an error. The methods do not check the context later.
//
// It keeps the rows of package override in a separate bbolt file, so
// that a local server needs no database.
//
// bbolt locks a file while it is open, so each operation opens and closes the
// file. Other processes can therefore change the rows while a server runs. By default,
// a server whose copy of the rows is 45 seconds old reads the rows again at the next
// request.
//
// The bucket "limits" maps each CIDR block to its row in JSON.
type Limits struct {
	file lockedFile
}

// NewLimits returns a Store in the file at path. The directory must exist. The first
// Put creates the file. Before that the Store is empty.
func NewLimits(path string) (*Limits, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Limits{file: lockedFile{Path: path, Bucket: "limits"}}, nil
}

// List implements ratelimit.RowStore.
func (s *Limits) List(ctx context.Context) (rows []ratelimit.Row, err error) {
	err = s.file.View(ctx, "list limits", func(b *bbolt.Bucket) error {
		rows, err = listRows(b)
		return err
	})
	return rows, err
}

func listRows(b *bbolt.Bucket) (rows []ratelimit.Row, err error) {
	for _, value := range scan(b, "", "", true) {
		r, err := decode[ratelimit.Row](value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b ratelimit.Row) int { return a.CIDR.Compare(b.CIDR) })
	return rows, nil
}

// Put implements ratelimit.RowManager. It also removes all rows that have expired.
func (s *Limits) Put(ctx context.Context, r ratelimit.Row) error {
	return s.file.Update(ctx, "put limits", func(b *bbolt.Bucket) error {
		rows, err := listRows(b)
		if err != nil {
			return err
		}
		others := 0
		for _, other := range rows {
			switch {
			case other.CIDR == r.CIDR:
			case !other.Expired(r.UpdatedAt):
				others++
			default:
				if err := b.Delete([]byte(other.CIDR.String())); err != nil {
					return err
				}
			}
		}
		if others >= ratelimit.MaxRows {
			return ratelimit.ErrTooManyRows
		}
		return putRecord(b, r.CIDR.String(), r)
	})
}

// Remove implements ratelimit.RowManager. If the file does not exist, Remove does not
// create it.
func (s *Limits) Remove(ctx context.Context, block netip.Prefix) error {
	if rows, err := s.List(ctx); err != nil || len(rows) == 0 {
		return cmp.Or(err, ratelimit.ErrNoRow)
	}
	return s.file.Update(ctx, "remove limits", func(b *bbolt.Bucket) error {
		key := []byte(block.String())
		if b.Get(key) == nil {
			return ratelimit.ErrNoRow
		}
		return b.Delete(key)
	})
}
