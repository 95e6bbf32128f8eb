// Package boltstores opens a service's embedded stores for tests.
package boltstores

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice"
	"sluice/pkg/bolt"
	"sluice/pkg/dashboard"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/index"
	"sluice/pkg/memory"
)

// Open opens all stores except ExportLinks. Counters and index declarations are in memory; the
// other stores share a new file in dir. now is the clock for records.
func Open(dir string, now func() time.Time) (stores httpapi.Stores, counters *memory.Counters, closeFile func() error, err error) {
	db, err := bbolt.Open(filepath.Join(dir, "test.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return stores, nil, nil, err
	}
	counters = memory.NewCounters()
	stores = httpapi.Stores{Usage: counters, Dashboard: dashboard.Files(), OpenAPI: sluice.OpenAPI}
	var errs [4]error
	indexes := new(index.Current)
	entities, err := bolt.NewEntities(db, entity.Clock{Now: now}, indexes)
	stores.Entities, stores.Finder, stores.Indexes, errs[0] = entities, entities, indexes, err
	stores.Events, errs[1] = bolt.NewEvents(db, now)
	stores.ErasureJobs, errs[2] = bolt.NewJobs(db, erasurejob.Kind)
	stores.ExportJobs, errs[3] = bolt.NewJobs(db, exportjob.Kind)
	return stores, counters, db.Close, errors.Join(errs[:]...)
}

// New calls Open with a temporary directory that lasts until the end of the test.
func New(t testing.TB, now func() time.Time) (httpapi.Stores, *memory.Counters) {
	t.Helper()
	stores, counters, closeFile, err := Open(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFile() }) //nolint:errcheck // a temporary file
	return stores, counters
}
