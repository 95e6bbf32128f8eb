package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// lockTimeout is how long an operation on a lockedFile waits for the lock.
const lockTimeout = time.Second

// lockedFile is a bbolt file with one bucket. bbolt locks a file for as long as it is open, so
// each operation opens and closes it, and several processes can take turns. A lockedFile is
// safe for concurrent use.
//
// A method checks its context only at the start. If the context is done by then, the method
// does nothing and returns an error.
type lockedFile struct {
	path   string // its directory must exist
	bucket string
}

// view calls read with the bucket, which is nil before the first update.
func (f lockedFile) view(ctx context.Context, op string, read func(*bbolt.Bucket) error) error {
	// A process that was killed while creating the file leaves it empty.
	info, err := os.Stat(f.path)
	if absent := errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0; absent && ctx.Err() == nil {
		return read(nil)
	}
	return f.withDB(ctx, op, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true}, func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error { return read(tx.Bucket([]byte(f.bucket))) })
	})
}

// update calls write with the bucket. If necessary, it creates the bucket and the file. If
// write fails, its changes are rolled back.
func (f lockedFile) update(ctx context.Context, op string, write func(*bbolt.Bucket) error) error {
	return f.withDB(ctx, op, &bbolt.Options{Timeout: lockTimeout}, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(f.bucket))
			if err != nil {
				return err
			}
			return write(b)
		})
	})
}

func (f lockedFile) withDB(ctx context.Context, op string, o *bbolt.Options, use func(*bbolt.DB) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	db, err := bbolt.Open(f.path, 0o600, o)
	if err != nil {
		return fmt.Errorf("%s: open %s: %w", op, f.path, err)
	}
	if err := errors.Join(use(db), db.Close()); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
