package bolt

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"sluice/pkg/ratelimit"

	"go.etcd.io/bbolt"
)

const limitsBucket = "limits"

// Limits is a ratelimit.RowManager that several processes can share. It is safe for concurrent
// use. The bucket "limits" of its file maps the name of each row to the row as JSON.
type Limits struct {
	file lockedFile
}

// NewLimits does not open the file. The directory of path must exist, and the first Put
// creates the file.
func NewLimits(path string) (*Limits, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Limits{file: newLockedFile(path, limitsBucket)}, nil
}

func (s *Limits) List(ctx context.Context) (rows []ratelimit.Row, err error) {
	err = s.file.view(ctx, "list limits", func(b *bbolt.Bucket) (err error) {
		rows, err = listRows(b)
		return err
	})
	return rows, err
}

func listRows(b *bbolt.Bucket) ([]ratelimit.Row, error) {
	rows, err := decodeAll[ratelimit.Row](scan(b, "", "", true))
	slices.SortFunc(rows, ratelimit.Row.Compare)
	return rows, err
}

// Put implements ratelimit.RowManager. It also removes all expired rows.
func (s *Limits) Put(ctx context.Context, r ratelimit.Row) error {
	return s.file.update(ctx, "put limits", func(b *bbolt.Bucket) error {
		rows, err := listRows(b)
		if err != nil {
			return err
		}
		others := 0
		for _, other := range rows {
			switch {
			case other.Name() == r.Name():
			case other.Expired(r.UpdatedAt):
				if err := b.Delete([]byte(other.Name())); err != nil {
					return err
				}
			case other.Blocks() == r.Blocks():
				others++
			}
		}
		if err := r.CheckRoom(others); err != nil {
			return err
		}
		return putRecord(b, r.Name(), r)
	})
}

// Remove implements ratelimit.RowManager. It never creates the file.
func (s *Limits) Remove(ctx context.Context, name string) error {
	if rows, err := s.List(ctx); err != nil || len(rows) == 0 {
		return cmp.Or(err, ratelimit.ErrNoRow)
	}
	return s.file.update(ctx, "remove limits", func(b *bbolt.Bucket) error {
		key := []byte(name)
		if b.Get(key) == nil {
			return ratelimit.ErrNoRow
		}
		return b.Delete(key)
	})
}
