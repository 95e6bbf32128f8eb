package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/pkg/exportjob"
)

// Runner runs jobs in this process, as the stream of the jobs' table and a
// function do in the deployment: each as soon as it is created, and again after
// a failure.
type Runner struct {
	exportjob.Store // whose new jobs are run
	worker          *Worker
	logger          *slog.Logger

	mu    sync.Mutex
	queue chan struct{} // has an element for each job that is running
	group sync.WaitGroup
	ctx   context.Context // of the runs; nil before Start
}

// NewRunner returns a Runner of store's jobs, of which it runs at most as many at
// once as most says.
func NewRunner(store exportjob.Store, worker *Worker, most int, logger *slog.Logger) (*Runner, error) {
	if store == nil || worker == nil || most < 1 {
		return nil, errors.New("worker: a runner needs a store, a worker and room for one job")
	}
	return &Runner{Store: store, worker: worker, logger: logger, queue: make(chan struct{}, most)}, nil
}

// Start begins to run jobs, first those of the backlog, until ctx is done. Wait
// then waits for the runs.
func (r *Runner) Start(ctx context.Context, backlog exportjob.Backlog) error {
	keys, err := backlog.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("start export jobs: %w", err)
	}
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	for _, key := range keys {
		r.run(key)
	}
	return nil
}

// Wait waits until all runs have ended. No job may be created meanwhile.
func (r *Runner) Wait() { r.group.Wait() }

// Create implements exportjob.Store and runs the job if it is new.
func (r *Runner) Create(ctx context.Context, j exportjob.Job) (stored exportjob.Job, created bool, err error) {
	stored, created, err = r.Store.Create(ctx, j)
	if created && err == nil {
		r.run(exportjob.Key{Workspace: stored.Workspace, ID: stored.ID})
	}
	return stored, created, err
}

// run runs a job in the background until it needs no further run or ctx is done.
// Between runs it waits, longer each time.
func (r *Runner) run(key exportjob.Key) {
	r.mu.Lock()
	ctx := r.ctx
	r.mu.Unlock()
	if ctx == nil {
		return // Start will find it
	}
	r.group.Go(func() {
		for wait := time.Second; ; wait *= 2 {
			select {
			case r.queue <- struct{}{}:
			case <-ctx.Done():
				return
			}
			err := r.worker.Run(ctx, key.Workspace, key.ID)
			<-r.queue
			if err == nil {
				return
			}
			r.logger.Error("export job failed for now", "workspace", key.Workspace, "export_job", key.ID, "error", err, "again_after", wait)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	})
}
