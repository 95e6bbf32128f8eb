package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
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
	path     string // its directory must exist
	bucket   string
	verified *atomic.Pointer[os.FileInfo] // what the file was when its pages were read last
}

func newLockedFile(path, bucket string) lockedFile {
	return lockedFile{path, bucket, new(atomic.Pointer[os.FileInfo])}
}

// view calls read with the bucket, which is nil before the first update.
func (f lockedFile) view(ctx context.Context, op string, read func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if isEmpty(f.path) {
		return read(nil)
	}
	err := viewFile(f.path, func(tx *bbolt.Tx) error {
		if err := f.verify(); err != nil {
			return err
		}
		return read(tx.Bucket([]byte(f.bucket)))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// verify reads all pages of the file, unless it is as it was the last time.
func (f lockedFile) verify() error {
	now, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if was := f.verified.Load(); was != nil && os.SameFile(*was, now) && (*was).ModTime().Equal(now.ModTime()) && (*was).Size() == now.Size() {
		return nil
	}
	if err := verified(f.path); err != nil {
		return err
	}
	f.verified.Store(&now)
	return nil
}

// update calls write with the bucket. If necessary, it creates the bucket and the file. If
// write fails, its changes are rolled back.
func (f lockedFile) update(ctx context.Context, op string, write func(*bbolt.Bucket) error) error {
	err := ctx.Err()
	if err == nil {
		err = verifyLocked(f.path)
	}
	if err == nil {
		err = updateFile(f.path, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(f.bucket))
			if err != nil {
				return err
			}
			return write(b)
		})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// isEmpty reports whether there is no file at path, or an empty one: a process that was killed while
// creating the file leaves it empty.
func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// openBolt opens the bbolt file at path. While it waits for the lock, Compact may put another file in
// its place.
func openBolt(path string, o *bbolt.Options) (*bbolt.DB, error) {
	for {
		db, opened, err := openOnce(path, *o)
		if err != nil {
			return nil, openError(path, err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(now, opened) {
			return db, nil
		}
		if err := db.Close(); err != nil {
			return nil, openError(path, err)
		}
	}
}

func openOnce(path string, o bbolt.Options) (db *bbolt.DB, opened os.FileInfo, err error) {
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		if err == nil {
			opened, err = file.Stat()
		}
		if err == nil && opened.Size() == 0 && o.ReadOnly {
			err = errEmpty
		}
		if err != nil {
			file.Close() //nolint:errcheck // a nil file too
			return nil, err
		}
		return file, nil
	}
	err = guard(path, func() error { db, err = bbolt.Open(path, 0o600, &o); return err })
	return db, opened, err
}

var errEmpty = errors.New("it is empty")

// openError tells what the system refuses from what bbolt does not accept.
func openError(path string, err error) error {
	_, damaged := errors.AsType[*DamageError](err)
	_, ofPath := errors.AsType[*fs.PathError](err)
	_, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout), ofPath, ofSystem:
		return fmt.Errorf("open %s: %w", path, err)
	case damaged:
		return err
	}
	return &DamageError{Path: path, What: err.Error()}
}

// viewFile calls read in a transaction of the bbolt file at path, while no other process writes to it.
func viewFile(path string, read func(*bbolt.Tx) error) error {
	db, err := openBolt(path, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	err = guard(path, func() error {
		return db.View(func(tx *bbolt.Tx) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if info.Size() < tx.Size() {
				return cutError(path, info.Size(), tx.Size())
			}
			return read(tx)
		})
	})
	return errors.Join(err, db.Close())
}

// updateFile calls write in a transaction of the bbolt file at path, which nobody else can open
// meanwhile. It creates the file if necessary.
func updateFile(path string, write func(*bbolt.Tx) error) error {
	created := isEmpty(path)
	db, err := openBolt(path, &bbolt.Options{Timeout: lockTimeout})
	if err != nil {
		return err
	}
	if err = guard(path, func() error { return update(db, write) }); err == nil && created {
		err = syncDir(filepath.Dir(path))
	}
	return errors.Join(err, db.Close())
}

// verifyLocked reads all pages of the bbolt file at path while no other process writes to it.
func verifyLocked(path string) error {
	if isEmpty(path) {
		return nil
	}
	return viewFile(path, func(*bbolt.Tx) error { return verified(path) })
}

// verified returns an error if verifyFile finds something.
func verified(path string) error {
	s, err := verifyFile(path)
	if err == nil && len(s.problems) > 0 {
		err = &DamageError{Path: path, What: s.problems[0]}
	}
	return err
}
