package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// compactBytes is how much of the new file one transaction of Compact writes, and has in memory.
const compactBytes = 16 << 20

// Compacted is what Compact has done.
type Compacted struct {
	Before, After int64 // size of the file with the records
	LostLast      bool  // one of its first pages was damaged, so the last write may be missing
}

// Compact rewrites the file with the records in dir, which no server is using, without the space that
// is free. It needs as much space as the new file takes. If it fails, nothing has changed.
func Compact(ctx context.Context, dir string) (c Compacted, err error) {
	known, err := checkDir(dir)
	if err = errors.Join(err, noData(dir, known)); err != nil {
		return c, err
	}
	path := filepath.Join(dir, recordsFile)
	err = viewFile(path, func(*bbolt.Tx) error {
		s, err := verifyFile(path)
		if err == nil && len(s.problems) > 0 && !s.last {
			err = &DamageError{Path: path, What: s.problems[0]}
		}
		c.LostLast = err == nil && s.last
		return err
	})
	if err != nil {
		return c, inUse(path, err)
	}
	from, err := openBolt(path, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return c, inUse(path, err)
	}
	temp := path + ".tmp"
	if err = copyTo(ctx, from, temp); err == nil {
		c.Before, c.After, err = sizes(path, temp)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		os.Remove(temp) //nolint:errcheck // err says more
	}
	if ctx.Err() != nil {
		return c, err // bbolt may still be reading
	}
	return c, errors.Join(err, from.Close())
}

// copyTo creates a compacted copy of a file, and verifies it.
func copyTo(ctx context.Context, from *bbolt.DB, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a command that was killed
		return err
	}
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- guard(from.Path(), func() error {
			if err := bbolt.Compact(to, from, compactBytes); err != nil {
				return err
			}
			return to.Update(func(*bbolt.Tx) error { return nil }) // so that either of the first two pages leads to everything
		})
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	return verifyLocked(path)
}

func sizes(paths ...string) (before, after int64, err error) {
	var all [2]int64
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return 0, 0, err
		}
		all[i] = info.Size()
	}
	return all[0], all[1], nil
}
