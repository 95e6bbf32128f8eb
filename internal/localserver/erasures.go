package localserver

import (
	"context"
	"log/slog"

	"sluice/pkg/erasurejob"
	"sluice/pkg/erasurejob/worker"
)

// erasures runs erasure jobs in this process.
type erasures struct {
	runner *worker.Runner
	worker *worker.Worker
	store  erasureStore
}

// erasureStore is a store of erasure jobs that can list the unfinished jobs.
type erasureStore interface {
	erasurejob.Store
	erasurejob.Backlog
}

// openErasures returns a value that runs the erasure jobs of the backend b. It also sets
// b.stores.ErasureJobs.
func openErasures(b *backend, logger *slog.Logger) (*erasures, error) {
	runner := worker.NewRunner(b.erasures, logger)
	w, err := worker.New(runner, b.stores.Events, worker.Config{Settle: b.settle, Logger: logger})
	if err != nil {
		return nil, err
	}
	b.stores.ErasureJobs = runner
	return &erasures{runner: runner, worker: w, store: b.erasures}, nil
}

// start starts goroutines that run erasure jobs, including the unfinished jobs of an earlier
// process, until ctx is done.
func (e *erasures) start(ctx context.Context) error {
	return e.runner.Start(ctx, e.worker, e.store)
}
