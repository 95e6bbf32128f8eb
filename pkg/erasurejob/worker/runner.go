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
	// runsAtOnce is the maximum number of jobs that a Runner runs at the same time.
	runsAtOnce = 4

	// retryAfter is the time between a failed run of a job and its next run.
	retryAfter = 5 * time.Second
)

// Runner is a Store that runs its jobs in this process. It runs each queued job and repeats
// a run that failed. On AWS, the stream of the table and a Lambda function do this. A Runner
// is safe for concurrent use.
type Runner struct {
	erasurejob.Store
	logger *slog.Logger
	room   chan struct{}
	group  sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // context of the runs; nil before Start
	worker *Worker
	queued map[erasurejob.Key]bool // jobs that wait for a slot
}

// NewRunner returns a Runner for the jobs in store.
func NewRunner(store erasurejob.Store, logger *slog.Logger) *Runner {
	return &Runner{Store: store, logger: logger, room: make(chan struct{}, runsAtOnce), queued: make(map[erasurejob.Key]bool)}
}

// Start begins to run jobs. It first queues the unfinished jobs of the given Backlog. The
// given Worker executes the runs, and its store must be r. No run starts after ctx is done.
// After that, call Wait to wait for the end of the current runs.
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

// Wait waits until all runs have ended. The caller must not request a job during this time.
func (r *Runner) Wait() { r.group.Wait() }

// Replace implements erasurejob.Store.
func (r *Runner) Replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	replaced, err := r.Store.Replace(ctx, j)
	if replaced && j.Status == erasurejob.Queued {
		r.enqueue(erasurejob.Key{Workspace: j.Workspace, ID: j.ID})
	}
	return replaced, err
}

// enqueue runs a job as soon as a slot is free, and again later if the run fails. It does
// nothing if the job already waits for a slot.
func (r *Runner) enqueue(key erasurejob.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, worker := r.ctx, r.worker
	if ctx == nil || ctx.Err() != nil { // not started, or ctx is done; the next Start queues all unfinished jobs
		return
	}
	if r.queued[key] {
		return
	}
	r.queued[key] = true
	r.group.Go(func() {
		select {
		case r.room <- struct{}{}:
			defer func() { <-r.room }()
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		delete(r.queued, key) // remove the key before the run reads the job, so that a later request queues another run
		r.mu.Unlock()
		if err := worker.Run(ctx, key.Workspace, key.ID); err != nil {
			r.logger.Error("run of an erasure job failed", "workspace", key.Workspace, "erasure_job", key.ID, "error", err, "again_after", retryAfter)
			time.AfterFunc(retryAfter, func() { r.enqueue(key) })
		}
	})
}
