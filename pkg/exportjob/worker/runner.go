package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/pkg/exportjob"
)

const (
	// firstTurn is the maximum time for which a run in the fast lane reads records. If
	// the job needs more time, it continues in the slow lane.
	firstTurn = 5 * time.Second

	// retryAfter is the delay before a job is queued again if its run failed.
	retryAfter = 5 * time.Second
)

// Runner is a Store that also runs its jobs in this process. It runs the jobs that wait
// in its lanes. If a run fails, the Runner repeats it. In each lane, the workspaces take
// turns. A Runner is safe for concurrent use.
//
// A local server uses a Runner. On AWS, Lambda functions run the jobs when they receive
// changes from the stream of the jobs table.
type Runner struct {
	exportjob.Store
	logger *slog.Logger
	group  sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // context of the runs; nil before Start
	worker *Worker
	lanes  map[exportjob.Lane]*lane
}

// lane is a queue of jobs.
type lane struct {
	most    int           // maximum number of concurrent runs
	turn    time.Duration // maximum reading time of a run; 0 for no maximum
	running int
	waiting []exportjob.Key
	started int            // number of runs started so far
	latest  map[string]int // for each workspace, the sequence number of its latest run among all runs of the lane
}

// NewRunner returns a Runner for the jobs of the given store. The Runner runs one job at
// a time in the fast lane and up to maxSlow jobs in the slow lane.
func NewRunner(store exportjob.Store, maxSlow int, logger *slog.Logger) (*Runner, error) {
	if store == nil || maxSlow < 1 {
		return nil, errors.New("worker: a store and a maximum of at least one run are required")
	}
	return &Runner{Store: store, logger: logger, lanes: map[exportjob.Lane]*lane{
		exportjob.Fast: {most: 1, turn: firstTurn, latest: make(map[string]int)},
		exportjob.Slow: {most: maxSlow, latest: make(map[string]int)},
	}}, nil
}

// Start makes r run its jobs with the given worker, whose store must be r. It also queues
// the unfinished jobs of the given backlog. No run starts after ctx is done. To wait for
// the runs that have already started, call Wait when ctx is done.
func (r *Runner) Start(ctx context.Context, worker *Worker, backlog exportjob.Backlog) error {
	keys, err := backlog.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("start export jobs: %w", err)
	}
	r.mu.Lock()
	r.ctx, r.worker = ctx, worker
	r.mu.Unlock()
	for _, key := range keys {
		r.enqueue(exportjob.Fast, key)
	}
	return nil
}

// Wait waits until all runs have ended. No job may be created during the call.
func (r *Runner) Wait() { r.group.Wait() }

// Create implements exportjob.Store.
func (r *Runner) Create(ctx context.Context, j exportjob.Job, quota int) (stored exportjob.Job, created bool, err error) {
	stored, created, err = r.Store.Create(ctx, j, quota)
	if created {
		r.enqueue(stored.Lane(), exportjob.Key{Workspace: stored.Workspace, ID: stored.ID})
	}
	return stored, created, err
}

// Replace implements exportjob.Store.
func (r *Runner) Replace(ctx context.Context, j exportjob.Job) (stored exportjob.Job, replaced bool, err error) {
	stored, replaced, err = r.Store.Replace(ctx, j)
	if replaced {
		r.enqueue(stored.Lane(), exportjob.Key{Workspace: stored.Workspace, ID: stored.ID})
	}
	return stored, replaced, err
}

// enqueue adds a job to the lane with the given name. If name is "", enqueue does
// nothing.
func (r *Runner) enqueue(name exportjob.Lane, key exportjob.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[name]
	if l == nil || r.ctx == nil { // the job has no lane, or the runner has not started; Start queues the jobs that were stored earlier
		return
	}
	l.waiting = append(l.waiting, key)
	r.dispatch(l)
}

// dispatch starts runs until the lane l has its maximum number of runs or no waiting
// jobs. The caller holds r.mu.
func (r *Runner) dispatch(l *lane) {
	for l.running < l.most && len(l.waiting) > 0 && r.ctx.Err() == nil {
		key := l.next()
		l.running++
		r.group.Go(func() {
			r.run(l, key)
			r.mu.Lock()
			defer r.mu.Unlock()
			l.running--
			r.dispatch(l)
		})
	}
}

// run runs a job once. If the run fails, the job is queued again after retryAfter, in the
// slow lane.
func (r *Runner) run(l *lane, key exportjob.Key) {
	ctx := r.ctx
	if l.turn > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.turn)
		defer cancel()
	}
	if err := r.worker.Run(ctx, key.Workspace, key.ID); err != nil {
		r.logger.Error("run of an export job failed", "workspace", key.Workspace, "export_job", key.ID, "error", err, "again_after", retryAfter)
		time.AfterFunc(retryAfter, func() { r.enqueue(exportjob.Slow, key) })
	}
}

// next removes and returns a job from the queue. Of the workspaces with waiting jobs, next
// selects the one whose latest run in this lane is the oldest, and takes its first waiting
// job.
func (l *lane) next() exportjob.Key {
	key := slices.MinFunc(l.waiting, func(a, b exportjob.Key) int { return cmp.Compare(l.latest[a.Workspace], l.latest[b.Workspace]) })
	i := slices.Index(l.waiting, key)
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.started++
	l.latest[key.Workspace] = l.started
	return key
}
