package boltstore_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/event/boltstore"
	"sluice/pkg/event/storetest"
)

func openDB(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, &bbolt.Options{NoSync: true})
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

func TestNewRequiresADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
