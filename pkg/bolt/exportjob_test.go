package bolt_test

import (
	"path/filepath"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/storetest"

	"go.etcd.io/bbolt"
)

func TestExportJobs(t *testing.T) {
	storetest.ExportJobs(t, func(t *testing.T) storetest.ExportJobStore {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "jobs.db"), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s, err := bolt.NewExportJobs(db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
