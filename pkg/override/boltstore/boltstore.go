// Package boltstore keeps the rows of package override in a separate bbolt file, so
// that a local server needs no database.
//
// bbolt locks a file while it is open, so each operation opens and closes the
// file. Other processes can therefore change the rows while a server runs. By default,
// a server whose copy of the rows is 45 seconds old reads the rows again at the next
// request.
//
// The bucket "limits" maps each CIDR block to its row in JSON.
package boltstore

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"go.etcd.io/bbolt"

	"sluice/pkg/override"
	"sluice/pkg/record/boltrecord"
)

// Store is an override.Manager. It is safe for concurrent use, even by several
// processes.
//
// If the context is already done when a method is called, the method does nothing
// and returns an error. The methods do not check the context later.
type Store struct {
	file boltrecord.File
}

// New returns a Store in the file at path. The directory must exist. The first
// Put creates the file. Before that the Store is empty.
func New(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("override boltstore: a path is required")
	}
	return &Store{file: boltrecord.File{Path: path, Bucket: "limits"}}, nil
}

// List implements override.Store.
func (s *Store) List(ctx context.Context) (rows []override.Row, err error) {
	err = s.file.View(ctx, "list limits", func(b *bbolt.Bucket) error {
		rows, err = list(b)
		return err
	})
	return rows, err
}

func list(b *bbolt.Bucket) (rows []override.Row, err error) {
	for _, value := range boltrecord.Scan(b, "", "", true) {
		r, err := boltrecord.Decode[override.Row](value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b override.Row) int { return a.CIDR.Compare(b.CIDR) })
	return rows, nil
}

// Put implements override.Manager. It also removes all rows that have expired.
func (s *Store) Put(ctx context.Context, r override.Row) error {
	return s.file.Update(ctx, "put limits", func(b *bbolt.Bucket) error {
		rows, err := list(b)
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
		if others >= override.MaxRows {
			return override.ErrFull
		}
		return boltrecord.Put(b, r.CIDR.String(), r)
	})
}

// Remove implements override.Manager. If the file does not exist, Remove does not
// create it.
func (s *Store) Remove(ctx context.Context, block netip.Prefix) error {
	if rows, err := s.List(ctx); err != nil || len(rows) == 0 {
		return cmp.Or(err, override.ErrNotFound)
	}
	return s.file.Update(ctx, "remove limits", func(b *bbolt.Bucket) error {
		key := []byte(block.String())
		if b.Get(key) == nil {
			return override.ErrNotFound
		}
		return b.Delete(key)
	})
}
