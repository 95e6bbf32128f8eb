package boltstore_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/exportjob/boltstore"
	"sluice/pkg/exportjob/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "jobs.db"), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s, err := boltstore.New(db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
