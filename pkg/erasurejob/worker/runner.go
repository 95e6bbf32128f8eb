package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/pkg/erasurejob"
)

const (
	// runsAtOnce is how many jobs a Runner runs at the same time.
	runsAtOnce = 4

	// retryAfter is how long a job waits after a run that failed.
	retryAfter = 5 * time.Second
)

// Runner is a Store whose jobs run in this process. It does what the stream of the jobs'
// table and the function do in the deployment: it runs each job that is queued, and
// repeats a run that failed. It is safe for concurrent use.
type Runner struct {
	erasurejob.Store
	logger *slog.Logger
	room   chan struct{}
	group  sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // of the runs; nil before Start
	worker *Worker
}

// NewRunner returns a Runner of store's jobs.
func NewRunner(store erasurejob.Store, logger *slog.Logger) *Runner {
	return &Runner{Store: store, logger: logger, room: make(chan struct{}, runsAtOnce)}
}

// Start runs jobs by worker, whose store must be r, until ctx is done; first those of
// the backlog. Wait then waits for the runs.
func (r *Runner) Start(ctx context.Context, worker *Worker, backlog erasurejob.Backlog) error {
	keys, err := backlog.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("start erasure jobs: %w", err)
	}
	r.mu.Lock()
	r.ctx, r.worker = ctx, worker
	r.mu.Unlock()
	for _, key := range keys {
		r.enqueue(key)
	}
	return nil
}

// Wait waits until all runs have ended. No job may be requested meanwhile.
func (r *Runner) Wait() { r.group.Wait() }

// Replace implements erasurejob.Store.
func (r *Runner) Replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	replaced, err := r.Store.Replace(ctx, j)
	if replaced && j.Status == erasurejob.Queued {
		r.enqueue(erasurejob.Key{Workspace: j.Workspace, ID: j.ID})
	}
	return replaced, err
}

// enqueue runs a job as soon as there is room, and again later if that fails.
func (r *Runner) enqueue(key erasurejob.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, worker := r.ctx, r.worker
	if ctx == nil || ctx.Err() != nil { // Start finds what is queued before, or by an earlier process
		return
	}
	r.group.Go(func() {
		select {
		case r.room <- struct{}{}:
			defer func() { <-r.room }()
		case <-ctx.Done():
			return
		}
		if err := worker.Run(ctx, key.Workspace, key.ID); err != nil {
			r.logger.Error("erasure job failed for now", "workspace", key.Workspace, "erasure_job", key.ID, "error", err, "again_after", retryAfter)
			time.AfterFunc(retryAfter, func() { r.enqueue(key) })
		}
	})
}
