// Package boltstore keeps API keys in a bbolt file of their own, for a server that
// needs no other program.
//
// bbolt locks a file while it is open, so each operation opens the file and closes
// it again. Keys can thus be managed while a server runs, which reads each of them
// at most once a minute.
//
// The bucket keys has the JSON of every key by id.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/access"
	"sluice/pkg/record/boltrecord"
)

// lockTimeout is the longest wait for another operation on the file.
const lockTimeout = time.Second

var bucket = []byte("keys")

// Store is an access.Manager. It is safe for concurrent use, also by several
// processes.
//
// If the context is done at the call, its methods do nothing and return an error.
// They do not watch the context later.
type Store struct {
	path string
}

// New returns a Store in the file at path, whose directory must exist. The first
// Create creates the file; until then there are no keys.
func New(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("access boltstore: a path is required")
	}
	return &Store{path: path}, nil
}

// with opens the file and calls f with the bucket of the keys, in a transaction
// that writes or only reads. The bucket is nil if f only reads and no key was ever
// created.
func (s *Store) with(ctx context.Context, op string, write bool, f func(keys *bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if _, err := os.Stat(s.path); !write && errors.Is(err, fs.ErrNotExist) {
		return f(nil)
	}
	db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: !write})
	if err != nil {
		return fmt.Errorf("%s: open %s: %w", op, s.path, err)
	}
	if write {
		err = db.Update(func(tx *bbolt.Tx) error {
			keys, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			return f(keys)
		})
	} else {
		err = db.View(func(tx *bbolt.Tx) error { return f(tx.Bucket(bucket)) })
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Get implements access.Store.
func (s *Store) Get(ctx context.Context, id string) (k access.Key, err error) {
	err = s.with(ctx, "get key", false, func(keys *bbolt.Bucket) (err error) {
		k, err = get(keys, id)
		return err
	})
	return k, err
}

func get(keys *bbolt.Bucket, id string) (access.Key, error) {
	if keys == nil {
		return access.Key{}, access.ErrNotFound
	}
	value := keys.Get([]byte(id))
	if value == nil {
		return access.Key{}, access.ErrNotFound
	}
	return boltrecord.Decode[access.Key](value)
}

// Create implements access.Manager.
func (s *Store) Create(ctx context.Context, k access.Key) error {
	return s.with(ctx, "create key", true, func(keys *bbolt.Bucket) error {
		if keys.Get([]byte(k.ID)) != nil {
			return access.ErrExists
		}
		return boltrecord.Put(keys, k.ID, k)
	})
}

// List implements access.Manager.
func (s *Store) List(ctx context.Context) (list []access.Key, err error) {
	err = s.with(ctx, "list keys", false, func(keys *bbolt.Bucket) error {
		for _, value := range boltrecord.Scan(keys, "", "", true) {
			k, err := boltrecord.Decode[access.Key](value)
			if err != nil {
				return err
			}
			list = append(list, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b access.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// Revoke implements access.Manager.
func (s *Store) Revoke(ctx context.Context, id string, at time.Time) (k access.Key, err error) {
	if _, err := s.Get(ctx, id); err != nil {
		return access.Key{}, err // and no file is created
	}
	err = s.with(ctx, "revoke key", true, func(keys *bbolt.Bucket) (err error) {
		if k, err = get(keys, id); err != nil {
			return err
		}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC().Truncate(time.Millisecond)
		}
		return boltrecord.Put(keys, k.ID, k)
	})
	return k, err
}
