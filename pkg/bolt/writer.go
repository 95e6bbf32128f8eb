package bolt

import (
	"errors"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// writer shares transactions, and their fsync, among concurrent writes. Those that arrive while
// a transaction is under way share the next one; otherwise a write starts at once. DB.Batch, in
// contrast, lets each wait for others until a timer ends.
type writer struct {
	db      *bbolt.DB
	mu      sync.Mutex
	waiting []write // for the next transaction
	running bool    // whether a goroutine commits writes
}

type write struct {
	apply func(*bbolt.Tx) error
	done  chan error
}

// errSolo tells a write that it failed in a transaction that it shared.
var errSolo = errors.New("repeat the write in a transaction of its own")

// update is like DB.Update, but may call apply more than once: a write that fails or panics is repeated
// by itself, for its own error, and those that shared its transaction are repeated without it.
// Only the last call takes effect.
func (w *writer) update(apply func(*bbolt.Tx) error) error {
	done := make(chan error, 1)
	w.mu.Lock()
	w.waiting = append(w.waiting, write{apply, done})
	if !w.running {
		w.running = true
		go w.run()
	}
	w.mu.Unlock()
	if err := <-done; err != errSolo {
		return err
	}
	return w.db.Update(apply)
}

// run commits writes until none wait.
func (w *writer) run() {
	for writes := w.take(); len(writes) > 0; writes = w.take() {
		w.commit(writes)
	}
}

func (w *writer) take() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.waiting
	w.waiting, w.running = nil, len(writes) > 0
	return writes
}

// commit applies writes in one transaction. If one fails, it starts again without it.
func (w *writer) commit(writes []write) {
	for len(writes) > 0 {
		failed := -1
		err := w.db.Update(func(tx *bbolt.Tx) error {
			if failed = slices.IndexFunc(writes, func(c write) bool { return !c.succeeds(tx) }); failed >= 0 {
				return errSolo
			}
			return nil
		})
		if failed >= 0 {
			writes[failed].done <- errSolo
			writes = slices.Delete(writes, failed, failed+1)
			continue
		}
		for _, c := range writes {
			c.done <- err
		}
		return
	}
}

// succeeds applies c and reports whether it neither failed nor panicked.
func (c write) succeeds(tx *bbolt.Tx) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return c.apply(tx) == nil
}
