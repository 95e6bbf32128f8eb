package bolt

import (
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// writer lets concurrent writes share a transaction and its fsync. A write that finds no
// transaction under way starts one, which includes all writes that arrive before it commits.
// Later writes share the next transaction. DB.Batch would instead make each write wait for
// others until a timer ends.
type writer struct {
	db       *bbolt.DB
	observer *Observer // may be nil
	damage   *damage
	turn     chan struct{} // a lock whose holder commits all waiting writes
	mu       sync.Mutex
	waiting  []write
}

type write struct {
	apply func(*bbolt.Tx) error
	done  chan error
}

func newWriter(db *bbolt.DB) *writer {
	return &writer{db: db, damage: new(damage), turn: make(chan struct{}, 1)}
}

// errSolo tells a write to retry in its own transaction because the shared one failed.
var errSolo = errors.New("repeat the write in a transaction of its own")

// update is like DB.Update, but may call apply more than once; only the last call takes
// effect. A write that fails or panics is retried in its own transaction, to get its own
// error. The other writes of the shared transaction are retried without it.
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
		defer w.observer.commit(1, time.Now())
		return w.damage.update(w.db, apply)
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

// commit applies all waiting writes, and those that arrive meanwhile, in one transaction. If a
// write fails, commit starts again without it. The caller holds w.turn; commit releases it.
func (w *writer) commit() {
	writes, err := w.take(), errSolo // err stays errSolo if bbolt panics
	defer func() {
		for _, c := range writes {
			c.done <- err
		}
		<-w.turn
	}()
	for failed := 0; failed >= 0 && len(writes) > 0; {
		failed = -1
		began := time.Now()
		err = w.damage.update(w.db, func(tx *bbolt.Tx) error {
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
		if failed < 0 {
			w.observer.commit(len(writes), began)
		} else {
			writes[failed].done <- errSolo
			writes = slices.Delete(writes, failed, failed+1)
		}
	}
}

// succeeds reports whether c was applied without an error or a panic.
func (c write) succeeds(tx *bbolt.Tx) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return c.apply(tx) == nil
}
