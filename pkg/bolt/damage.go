package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// DamageError means that a file of a data directory is not as it was written.
type DamageError struct {
	Path string
	What string

	structure bool // bbolt stopped in the middle, so it must not write to the file any more
	stuck     bool // it stopped while it began a transaction, and holds its locks for ever
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged (%s); \"sluice check --data-dir %s\" says more, and \"sluice restore\" creates a data directory from a backup",
		e.Path, e.What, filepath.Dir(e.Path))
}

func cutError(path string, size, want int64) *DamageError {
	return &DamageError{Path: path, What: fmt.Sprintf("it has %d bytes instead of %d", size, want)}
}

// errDamaged is in errors about values that are not as they were written.
var errDamaged = errors.New("a record cannot be read")

// guard calls use, which works on the file at path. It returns a *DamageError if use meets damage:
// where bbolt finds a page that it cannot use, it panics, and pages that cannot be read are faults.
// Other panics, which are faults of this program, go on.
func guard(path string, use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of this goroutine
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault && !inBbolt() {
				panic(p)
			}
			err = &DamageError{Path: path, What: fmt.Sprint(p), structure: true}
		}
	}()
	if err = use(); errors.Is(err, errDamaged) {
		err = &DamageError{Path: path, What: err.Error()}
	}
	return err
}

// inBbolt reports whether the panic that the caller recovers began in bbolt.
func inBbolt() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
		}
		if !more {
			return false
		}
	}
}

// damage remembers what damage was met in a file. Its zero value is ready to use.
type damage struct{ met atomic.Pointer[DamageError] }

func (t *table[R]) share(d *damage) { t.damage, t.writer.damage = d, d }

// view is like DB.View.
func (d *damage) view(db *bbolt.DB, read func(*bbolt.Tx) error) error {
	if e := d.met.Load(); e != nil && e.stuck {
		return e
	}
	begun := false
	return d.note(&begun, guard(db.Path(), func() error {
		return db.View(func(tx *bbolt.Tx) error { begun = true; return read(tx) })
	}))
}

// update is like DB.Update, but does nothing after bbolt has stopped in the middle of something: it
// could overwrite pages that it takes for free.
func (d *damage) update(db *bbolt.DB, write func(*bbolt.Tx) error) error {
	if e := d.met.Load(); e != nil && e.structure {
		return e
	}
	begun := false
	return d.note(&begun, guard(db.Path(), func() error {
		return update(db, func(tx *bbolt.Tx) error { begun = true; return write(tx) })
	}))
}

func (d *damage) note(begun *bool, err error) error {
	if e, ok := errors.AsType[*DamageError](err); ok {
		e.stuck = e.structure && !*begun
		if was := d.met.Load(); was == nil || e.stuck || e.structure && !was.structure {
			d.met.Store(e)
		}
	}
	return err
}

// update is like DB.Update, which after a panic looks for all free pages again, in a goroutine that
// cannot be guarded. So after a panic in which bbolt had taken pages, these are lost until the file is
// opened again.
func update(db *bbolt.DB, write func(*bbolt.Tx) error) error {
	tx, err := db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // fails after Commit, and otherwise changes only memory
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Health returns an error if damage has been met in the file with the records since it was opened,
// or if the file has become shorter or another one has taken its place.
func (s *Stores) Health() error {
	if e := s.damage.met.Load(); e != nil {
		return e
	}
	info, err := os.Stat(s.Path)
	if err != nil {
		return err
	}
	if !os.SameFile(info, s.opened) {
		return &DamageError{Path: s.Path, What: "another file has taken its place"}
	}
	return s.damage.view(s.db, func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return cutError(s.Path, info.Size(), tx.Size())
		}
		return nil
	})
}
