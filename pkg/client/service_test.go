package client_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"sluice"
	"sluice/pkg/dashboard"
	entitybolt "sluice/pkg/entity/boltstore"
	erasurebolt "sluice/pkg/erasurejob/boltstore"
	eventbolt "sluice/pkg/event/boltstore"
	jobbolt "sluice/pkg/exportjob/boltstore"
	"sluice/pkg/exportjob/dirfiles"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
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
	if stores.Entities, err = entitybolt.New(db); err != nil {
		return "", nil, err
	}
	if stores.Events, err = eventbolt.New(db); err != nil {
		return "", nil, err
	}
	if stores.ErasureJobs, err = erasurebolt.New(db); err != nil {
		return "", nil, err
	}
	if stores.ExportJobs, err = jobbolt.New(db); err != nil {
		return "", nil, err
	}
	if stores.ExportLinks, err = dirfiles.New(dir, time.Now); err != nil {
		return "", nil, err
	}
	counters := memstore.New()
	stores.Usage, stores.Dashboard = counters, dashboard.Files()
	limiter, err := ratelimit.New(counters, ratelimit.Config{Limits: limits})
	if err != nil {
		return "", nil, err
	}
	api, err := httpapi.New(limiter, stores, httpapi.Options{AccessOff: true, Logger: slog.New(slog.DiscardHandler)})
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
