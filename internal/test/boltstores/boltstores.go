// Package boltstores opens a service's embedded stores for tests.
package boltstores

import (
	"testing"
	"time"

	"sluice"
	"sluice/pkg/bolt"
	"sluice/pkg/dashboard"
	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
)

// Open opens the stores of a data directory, except those of export files. Counters are in memory. now is the
// clock for records.
func Open(dir string, now func() time.Time) (stores httpapi.Stores, counters *memory.Counters, closeFile func() error, err error) {
	s, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: now}, NoSync: true})
	if err != nil {
		return stores, nil, nil, err
	}
	counters = memory.NewCounters()
	return httpapi.Stores{
		Entities: s.Entities, Finder: s.Entities, Indexes: s.Indexed, Events: s.Events, Erasures: s.Erasures, ErasureJobs: s.ErasureJobs, ExportJobs: s.ExportJobs,
		Usage: counters, Minute: counters, Keys: s.Keys, LimitRows: s.Limits, Declarations: s.Indexes, Audit: s.Audit, Dashboard: dashboard.Files(), OpenAPI: sluice.OpenAPI,
	}, counters, s.Close, nil
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
