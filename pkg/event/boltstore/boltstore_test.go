package boltstore_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/event/boltstore"
	"sluice/pkg/event/storetest"
)

func open(t *testing.T) event.Store {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := boltstore.New(db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
