package boltstore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/entity/boltstore"
	"sluice/pkg/entity/storetest"
	"sluice/pkg/record"
)

func openDB(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openIn(t *testing.T, db *bbolt.DB) entity.Store {
	t.Helper()
	s, err := boltstore.New(db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T) entity.Store { return openIn(t, openDB(t)) }

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestWalks(t *testing.T) {
	t.Parallel()
	storetest.Walk(t, open(t))
}

// A change may take long, and bbolt has one writer.
func TestOtherWritesDoNotWaitForAChange(t *testing.T) {
	t.Parallel()
	s := open(t)
	create(t, s, "a")
	_, err := s.Update(t.Context(), "default", "a", func(e entity.Entity) (entity.Entity, error) {
		written := make(chan error)
		go func() {
			_, _, err := s.Create(t.Context(), "default", entity.Entity{ID: "b", Type: "account", Attributes: record.Attributes(`{}`)})
			written <- err
		}()
		select {
		case err := <-written:
			return e, err
		case <-time.After(10 * time.Second):
			go func() { <-written }()
			return e, errors.New("another write waits for the change")
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnUpdateThatChangesNothingWritesNothing(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	s := openIn(t, db)
	create(t, s, "a")
	for _, tt := range []struct {
		patch  string
		writes int
	}{{`{}`, 0}, {`{"a":1}`, 0}, {`{"b":null}`, 0}, {`{"a":2}`, 1}, {`{"a":2}`, 0}} {
		before := transactions(t, db)
		if _, err := entity.Update(t.Context(), s, "default", "a", record.Attributes(tt.patch), time.Now()); err != nil {
			t.Fatal(err)
		}
		if n := transactions(t, db) - before; n != tt.writes {
			t.Errorf("%s: %d writing transactions, want %d", tt.patch, n, tt.writes)
		}
	}
}

// transactions returns the number of writing transactions so far.
func transactions(t *testing.T, db *bbolt.DB) (n int) {
	t.Helper()
	if err := db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// create creates an entity with the attributes {"a":1}.
func create(t *testing.T, s entity.Store, id string) {
	t.Helper()
	e := entity.Entity{ID: id, Type: "account", Attributes: record.Attributes(`{"a":1}`)}
	if _, created, err := s.Create(t.Context(), "default", e); !created || err != nil {
		t.Fatalf("created %v, error %v", created, err)
	}
}

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
