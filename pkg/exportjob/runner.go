package exportjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Key names a job.
type Key struct{ Workspace, ID string }

// Backlog is what a Runner asks a store for besides.
type Backlog interface {
	// Unfinished returns the jobs of all workspaces that have not ended.
	Unfinished(ctx context.Context) ([]Key, error)
}

// Runner runs jobs in this process, as the stream of the jobs' table and a
// function do in the deployment: each as soon as it is created, and again after
// a failure.
type Runner struct {
	Store  // whose new jobs are run
	worker *Worker
	logger *slog.Logger

	mu    sync.Mutex
	queue chan struct{} // what runs at once
	group sync.WaitGroup
	ctx   context.Context // of the runs; nil before Start
}

// NewRunner makes a Runner of store's jobs, of which most run at once.
func NewRunner(store Store, worker *Worker, most int, logger *slog.Logger) (*Runner, error) {
	if store == nil || worker == nil || most < 1 {
		return nil, errors.New("exportjob: a runner needs a store, a worker and room for one job")
	}
	return &Runner{Store: store, worker: worker, logger: logger, queue: make(chan struct{}, most)}, nil
}

// Start begins to run jobs, first those of the backlog, until ctx is done. Wait
// then waits for the runs.
func (r *Runner) Start(ctx context.Context, backlog Backlog) error {
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

// Create implements Store and runs the job if it is new.
func (r *Runner) Create(ctx context.Context, j Job) (stored Job, created bool, err error) {
	stored, created, err = r.Store.Create(ctx, j)
	if created && err == nil {
		r.run(Key{Workspace: stored.Workspace, ID: stored.ID})
	}
	return stored, created, err
}

// run runs a job in the background, until it is done with or the runner's time
// is over. Between tries it waits, longer each time.
func (r *Runner) run(key Key) {
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
