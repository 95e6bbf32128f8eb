package boltrecord

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// lockTimeout is the longest wait for another operation on a File.
const lockTimeout = time.Second

// File is a bbolt file with one bucket that is open only during an operation, so
// that several processes can use it. It is safe for concurrent use.
//
// If the context is done at the call, its methods do nothing and return an error.
// They do not watch the context later.
type File struct {
	Path   string // in a directory that exists
	Bucket string
}

// View calls read with the bucket, which is nil if nothing was ever written.
func (f File) View(ctx context.Context, op string, read func(*bbolt.Bucket) error) error {
	if _, err := os.Stat(f.Path); errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		return read(nil)
	}
	return f.with(ctx, op, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true}, func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error { return read(tx.Bucket([]byte(f.Bucket))) })
	})
}

// Update calls write with the bucket in a transaction, which is undone if write
// returns an error. It creates the file and the bucket if needed.
func (f File) Update(ctx context.Context, op string, write func(*bbolt.Bucket) error) error {
	return f.with(ctx, op, &bbolt.Options{Timeout: lockTimeout}, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(f.Bucket))
			if err != nil {
				return err
			}
			return write(b)
		})
	})
}

// with calls use with the open file.
func (f File) with(ctx context.Context, op string, o *bbolt.Options, use func(*bbolt.DB) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	db, err := bbolt.Open(f.Path, 0o600, o)
	if err != nil {
		return fmt.Errorf("%s: open %s: %w", op, f.Path, err)
	}
	if err := errors.Join(use(db), db.Close()); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
