package client_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"time"

	"sluice/internal/test/boltstores"
	"sluice/pkg/files"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// service runs the API on a free port. Jobs stay queued, because no worker runs.
func service(limits ratelimit.Limits) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-client-")
	if err != nil {
		return "", nil, err
	}
	stores, counters, closeFile, err := boltstores.Open(dir, time.Now)
	if err != nil {
		return "", nil, err
	}
	exports, err := files.NewDir(dir, time.Now)
	if err != nil {
		return "", nil, err
	}
	stores.ExportLinks, stores.ExportDeleter = exports, exports
	limiter, err := ratelimit.New(counters, ratelimit.Config{Limits: limits})
	if err != nil {
		return "", nil, err
	}
	api, err := httpapi.New(limiter, stores, httpapi.Options{Config: httpapi.Config{AccessOff: true, AdminRoutes: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(api)
	return server.URL, func() {
		server.Close()
		closeFile()       //nolint:errcheck // the file is removed
		os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	}, nil
}
