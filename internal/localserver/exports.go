package localserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/worker"
	"sluice/pkg/files"
)

// exportsAtOnce is the maximum number of export jobs that run at the same time in the slow
// lane. A job first runs in the fast lane, which does not count towards this maximum.
const exportsAtOnce = 2

// exports runs export jobs in this process and serves their files.
type exports struct {
	runner *worker.Runner
	worker *worker.Worker
	store  jobStore
	files  *files.Dir
	days   int // number of days for which files are kept
	logger *slog.Logger
}

// jobStore is a store of export jobs that can list the unfinished jobs.
type jobStore interface {
	exportjob.Store
	exportjob.Backlog
}

// openExports returns a value that runs the export jobs of the backend b. It also sets
// ExportJobs and ExportLinks of b.stores. The export files are in a subdirectory of dir.
func openExports(b *backend, dir string, getenv func(string) string, logger *slog.Logger) (*exports, error) {
	days, err := worker.ParseFileDays(cmp.Or(getenv("EXPORT_FILE_DAYS"), "7"))
	if err != nil {
		return nil, err
	}
	files, err := files.NewDir(filepath.Join(dir, "exports"), time.Now)
	if err != nil {
		return nil, err
	}
	runner, err := worker.NewRunner(b.jobs, exportsAtOnce, logger)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(runner, b.stores.Entities, b.stores.Events, files, worker.Config{FileDays: days, Logger: logger})
	if err != nil {
		return nil, err
	}
	b.stores.ExportJobs, b.stores.ExportLinks = runner, files
	return &exports{runner: runner, worker: w, store: b.jobs, files: files, days: days, logger: logger}, nil
}

// start starts goroutines that run jobs and remove old files until ctx is done. They also
// run the unfinished jobs of an earlier process.
func (e *exports) start(ctx context.Context) error {
	if err := e.runner.Start(ctx, e.worker, e.store); err != nil {
		return err
	}
	go func() {
		daily := time.NewTicker(24 * time.Hour)
		defer daily.Stop()
		for {
			if err := e.files.Expire(e.days); err != nil {
				e.logger.Error("cannot remove old export files", "error", err)
			}
			select {
			case <-daily.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// beside returns a handler that serves the export files at their download links. It passes all
// other requests to next.
func (e *exports) beside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, files.DirPrefix) {
			e.files.ServeHTTP(downloadWriter{w}, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// downloadWriter extends the write deadline of the connection with each write. The duration of
// a download is therefore unlimited if the client keeps reading.
type downloadWriter struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (w downloadWriter) Write(b []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, fmt.Errorf("extend the deadline of a download: %w", err)
	}
	return w.ResponseWriter.Write(b)
}
