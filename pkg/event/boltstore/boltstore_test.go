package boltstore_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/event/boltstore"
	"sluice/pkg/event/storetest"
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

func open(t *testing.T) event.Store {
	s, err := boltstore.New(openDB(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestWalks(t *testing.T) {
	t.Parallel()
	storetest.Walk(t, open(t), false)
}

// A database that was written before lists by entity were thought of.
func TestOldDatabasesGetTheIndex(t *testing.T) {
	db := openDB(t)
	s, err := boltstore.New(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		e := event.Event{ID: id, Name: "login", EntityID: "u", Attributes: record.Attributes(`{}`)}
		if _, _, err := s.Create(t.Context(), "default", e); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("events_by_entity")) }); err != nil {
		t.Fatal(err)
	}
	if s, err = boltstore.New(db); err != nil {
		t.Fatal(err)
	}
	if page, err := s.List(t.Context(), "default", event.Query{EntityID: "u", Limit: 10}); err != nil || len(page.Events) != 2 {
		t.Errorf("the list has %+v, error %v", page, err)
	}
}

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
