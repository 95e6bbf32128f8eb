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

// lockTimeout is the maximum wait for another operation on a File.
const lockTimeout = time.Second

// lockedFile is a bbolt file with one bucket. It is open only during an operation, so several
// processes can use it. It is safe for concurrent use.
//
// If the context is already done when a method is called, the method does nothing and
// returns an error. The methods do not check the context later.
type lockedFile struct {
	Path   string // path of the file, in an existing directory
	Bucket string // name of the bucket
}

// View calls the function read with the bucket. The bucket is nil before the first
// Update.
func (f lockedFile) View(ctx context.Context, op string, read func(*bbolt.Bucket) error) error {
	if _, err := os.Stat(f.Path); errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		return read(nil)
	}
	return f.withDB(ctx, op, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true}, func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error { return read(tx.Bucket([]byte(f.Bucket))) })
	})
}

// Update calls the function write with the bucket, in a transaction. If write returns an
// error, Update rolls the transaction back. Update creates the file and the bucket if
// necessary.
func (f lockedFile) Update(ctx context.Context, op string, write func(*bbolt.Bucket) error) error {
	return f.withDB(ctx, op, &bbolt.Options{Timeout: lockTimeout}, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(f.Bucket))
			if err != nil {
				return err
			}
			return write(b)
		})
	})
}

// withDB opens the file, calls use with the database, and closes the file.
func (f lockedFile) withDB(ctx context.Context, op string, o *bbolt.Options, use func(*bbolt.DB) error) error {
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
