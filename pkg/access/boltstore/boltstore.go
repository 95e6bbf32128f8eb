// Package boltstore keeps access keys in a bbolt file of their own, for a server
// that needs no other program.
//
// bbolt locks a file for as long as it is open, so each operation opens the
// file and closes it again: keys can be managed while a server runs that reads
// each of them at most once a minute.
//
// The bucket keys holds the JSON of every key by id.
package boltstore

import (
	"cmp"
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

// Store is an access.Manager. It is safe for concurrent use, by several
// processes too.
//
// Its methods fail, and do nothing, when their context is done at the call.
// What has begun runs to its end.
type Store struct {
	path string
}

// New makes a Store of the file at path. The file is made by the first Create;
// until then there are no keys. Its directory must be there.
func New(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("access boltstore: a path is required")
	}
	return &Store{path: path}, nil
}

// row is a key as JSON.
type row struct {
	ID         string         `json:"id"`
	Name       string         `json:"name,omitzero"`
	Workspace  string         `json:"workspace"`
	Scopes     []access.Scope `json:"scopes"`
	SecretHash access.Hash    `json:"secret_hash"`
	CreatedAt  time.Time      `json:"created_at"`
	ExpiresAt  time.Time      `json:"expires_at,omitzero"`
	RevokedAt  time.Time      `json:"revoked_at,omitzero"`
}

// view calls read with the bucket of the keys; with nil if there is no file yet.
func (s *Store) view(ctx context.Context, op string, read func(*bbolt.Bucket) error) error {
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(ctx.Err(), read(nil))
	}
	return s.with(ctx, op, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true}, func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error { return read(tx.Bucket(bucket)) })
	})
}

// update calls write with the bucket of the keys and commits what it did,
// unless it failed.
func (s *Store) update(ctx context.Context, op string, write func(*bbolt.Bucket) error) error {
	return s.with(ctx, op, &bbolt.Options{Timeout: lockTimeout}, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			return write(b)
		})
	})
}

// with opens the file for as long as f runs.
func (s *Store) with(ctx context.Context, op string, opts *bbolt.Options, f func(*bbolt.DB) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	db, err := bbolt.Open(s.path, 0o600, opts)
	if err != nil {
		return fmt.Errorf("%s: open %s: %w", op, s.path, err)
	}
	if err := errors.Join(f(db), db.Close()); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Get implements access.Store.
func (s *Store) Get(ctx context.Context, id string) (k access.Key, err error) {
	err = s.view(ctx, "get key", func(keys *bbolt.Bucket) (err error) {
		k, err = get(keys, id)
		return err
	})
	return k, err
}

// get reads a key from keys, which may be nil.
func get(keys *bbolt.Bucket, id string) (access.Key, error) {
	if keys == nil {
		return access.Key{}, access.ErrNotFound
	}
	value := keys.Get([]byte(id))
	if value == nil {
		return access.Key{}, access.ErrNotFound
	}
	r, err := boltrecord.Decode[row](value)
	return access.Key(r), err
}

// Create implements access.Manager.
func (s *Store) Create(ctx context.Context, k access.Key) error {
	return s.update(ctx, "create key", func(keys *bbolt.Bucket) error {
		if keys.Get([]byte(k.ID)) != nil {
			return access.ErrExists
		}
		return boltrecord.Put(keys, k.ID, row(k))
	})
}

// List implements access.Manager.
func (s *Store) List(ctx context.Context) (list []access.Key, err error) {
	err = s.view(ctx, "list keys", func(keys *bbolt.Bucket) error {
		if keys == nil {
			return nil
		}
		return keys.ForEach(func(_, value []byte) error {
			r, err := boltrecord.Decode[row](value)
			list = append(list, access.Key(r))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b access.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// Revoke implements access.Manager.
func (s *Store) Revoke(ctx context.Context, id string, at time.Time) (k access.Key, err error) {
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return access.Key{}, access.ErrNotFound // a file would be made
	}
	err = s.update(ctx, "revoke key", func(keys *bbolt.Bucket) (err error) {
		if k, err = get(keys, id); err != nil {
			return err
		}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC().Truncate(time.Millisecond)
		}
		return boltrecord.Put(keys, k.ID, row(k))
	})
	return k, err
}
