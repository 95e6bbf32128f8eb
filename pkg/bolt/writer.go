package bolt

import (
	"errors"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// writer lets concurrent writes share transactions and their fsync. A write that finds no
// transaction under way starts one, and takes along all that arrive before it commits; later
// ones share the next. DB.Batch, in contrast, makes each write wait for others until a timer
// ends.
type writer struct {
	db      *bbolt.DB
	turn    chan struct{} // a lock: its holder commits for all that wait
	mu      sync.Mutex
	waiting []write
}

type write struct {
	apply func(*bbolt.Tx) error
	done  chan error
}

func newWriter(db *bbolt.DB) *writer { return &writer{db: db, turn: make(chan struct{}, 1)} }

// errSolo tells a write to retry by itself because a shared transaction failed.
var errSolo = errors.New("repeat the write in a transaction of its own")

// update is like DB.Update, but may call apply more than once. A write that fails or panics is
// retried by itself, to get its own error, and those that shared its transaction are retried
// without it. Only the last call takes effect.
func (w *writer) update(apply func(*bbolt.Tx) error) error {
	c := write{apply, make(chan error, 1)}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	w.mu.Unlock()
	var err error
	select {
	case err = <-c.done:
	case w.turn <- struct{}{}:
		w.commit()
		err = <-c.done
	}
	if err == errSolo {
		return w.db.Update(apply)
	}
	return err
}

func (w *writer) take() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.waiting
	w.waiting = nil
	return writes
}

// commit applies the writes that wait, and those that arrive meanwhile, in one transaction,
// and starts again without any that fails. The caller has the turn, and commit ends it.
func (w *writer) commit() {
	writes, err := w.take(), errSolo // errSolo remains if bbolt panics
	defer func() {
		for _, c := range writes {
			c.done <- err
		}
		<-w.turn
	}()
	for failed := 0; failed >= 0 && len(writes) > 0; {
		failed = -1
		err = w.db.Update(func(tx *bbolt.Tx) error {
			for i := 0; i < len(writes); i++ {
				if !writes[i].succeeds(tx) {
					failed = i
					return errSolo
				}
				if i == len(writes)-1 {
					writes = append(writes, w.take()...)
				}
			}
			return nil
		})
		if failed >= 0 {
			writes[failed].done <- errSolo
			writes = slices.Delete(writes, failed, failed+1)
		}
	}
}

// succeeds reports whether c neither failed nor panicked.
func (c write) succeeds(tx *bbolt.Tx) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return c.apply(tx) == nil
}
