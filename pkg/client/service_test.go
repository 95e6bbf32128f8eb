package client_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"sluice"
	"sluice/pkg/bolt"
	"sluice/pkg/dashboard"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// service runs the API on a free port. Its jobs stay queued.
func service(limits ratelimit.Limits) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-client-")
	if err != nil {
		return "", nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "sluice.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return "", nil, err
	}
	db.MaxBatchDelay = 0
	stores := httpapi.Stores{OpenAPI: sluice.OpenAPI}
	if stores.Entities, err = bolt.NewEntities(db, entity.Clock{}); err != nil {
		return "", nil, err
	}
	if stores.Events, err = bolt.NewEvents(db, time.Now); err != nil {
		return "", nil, err
	}
	if stores.ErasureJobs, err = bolt.NewJobs(db, erasurejob.Kind); err != nil {
		return "", nil, err
	}
	if stores.ExportJobs, err = bolt.NewJobs(db, exportjob.Kind); err != nil {
		return "", nil, err
	}
	if stores.ExportLinks, err = files.NewDir(dir, time.Now); err != nil {
		return "", nil, err
	}
	counters := memory.NewCounters()
	stores.Usage, stores.Dashboard = counters, dashboard.Files()
	limiter, err := ratelimit.New(counters, ratelimit.Config{Limits: limits})
	if err != nil {
		return "", nil, err
	}
	api, err := httpapi.New(limiter, stores, httpapi.Options{Config: httpapi.Config{AccessOff: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(api)
	return server.URL, func() {
		server.Close()
		db.Close()        //nolint:errcheck // the file is removed
		os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	}, nil
}
