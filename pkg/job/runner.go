package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// retryAfter is how long a Runner waits after a failed run before it queues the job again.
const retryAfter = 5 * time.Second

// RunnerConfig tunes a Runner. Its zero value is ready to use.
type RunnerConfig struct {
	Config
	Slots     int           // number of concurrent runs; 1 by default
	FirstTurn time.Duration // if set, the fast lane has a slot of its own, in which a run may work for this long
}

// Runner is a Backlog that runs its jobs in this process, for a local server. On AWS, the job
// table's stream and Lambda functions do that instead. In each lane, workspaces take turns. A
// failed run is repeated. A Runner is safe for concurrent use.
type Runner struct {
	Backlog
	worker *Worker
	group  sync.WaitGroup

	mu    sync.Mutex
	ctx   context.Context // context of the runs; nil before Start
	lanes map[Lane]*lane
}

type lane struct {
	slots   int
	turn    time.Duration // how long a run may work; 0 for as long as it takes
	running int
	waiting map[string][]string // job ids by workspace, in order
	turns   []string            // workspaces with waiting jobs; the first is next
}

// NewRunner fails if store or work is nil.
func NewRunner(kind Kind, store Backlog, work Work, cfg RunnerConfig) (*Runner, error) {
	if store == nil {
		return nil, errors.New("job: a store is required")
	}
	slow := &lane{slots: cmp.Or(cfg.Slots, 1), waiting: make(map[string][]string)}
	fast := slow
	if cfg.FirstTurn > 0 {
		fast = &lane{slots: 1, turn: cfg.FirstTurn, waiting: make(map[string][]string)}
	}
	r := &Runner{Backlog: store, lanes: map[Lane]*lane{Fast: fast, Slow: slow}}
	var err error
	r.worker, err = NewWorker(kind, r, work, cfg.Config)
	return r, err
}

// Start begins to run jobs. The jobs that an earlier process left unfinished come first. After
// ctx is done, no run starts, and [Runner.Wait] waits for the runs in progress.
func (r *Runner) Start(ctx context.Context) error {
	keys, err := r.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("start %ss: %w", r.worker.kind, err)
	}
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	for _, key := range keys {
		r.enqueue(Fast, key)
	}
	return nil
}

// OnEnd makes runs call ended with the status with which a job has ended. It must be called before
// Start. ended must be safe for concurrent use.
func (r *Runner) OnEnd(ended func(Status)) { r.worker.cfg.ended = ended }

// Load returns how many jobs wait for a run, and how many are running.
func (r *Runner) Load() (waiting, running int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range slices.Compact([]*lane{r.lanes[Fast], r.lanes[Slow]}) { // both may be the same
		running += l.running
		for _, ids := range l.waiting {
			waiting += len(ids)
		}
	}
	return waiting, running
}

// Wait waits until all runs have ended. No job may be created during the call.
func (r *Runner) Wait() { r.group.Wait() }

// Put stores a job and, if the job needs a run, queues it.
func (r *Runner) Put(ctx context.Context, j Job) (stored Job, put bool, err error) {
	stored, put, err = r.Backlog.Put(ctx, j)
	if put {
		r.Queue(stored)
	}
	return stored, put, err
}

// Queue must be called after a job was stored without Put.
func (r *Runner) Queue(j Job) { r.enqueue(j.Lane(), Key{Workspace: j.Workspace, ID: j.ID}) }

// enqueue adds a job to a lane. It does nothing if the job already waits there or needs no run.
func (r *Runner) enqueue(name Lane, key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[name]
	if l == nil || r.ctx == nil { // Start queues all jobs that were stored before its call
		return
	}
	ids := l.waiting[key.Workspace]
	if slices.Contains(ids, key.ID) {
		return
	}
	if len(ids) == 0 {
		l.turns = append(l.turns, key.Workspace)
	}
	l.waiting[key.Workspace] = append(ids, key.ID)
	r.dispatch(l)
}

// dispatch starts runs until all slots of l are taken or no job is waiting. The caller holds r.mu.
func (r *Runner) dispatch(l *lane) {
	for l.running < l.slots && len(l.turns) > 0 && r.ctx.Err() == nil {
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

// run runs a job. If the run fails, the job is queued again, in the slow lane, after retryAfter.
func (r *Runner) run(l *lane, key Key) {
	ctx := r.ctx
	if l.turn > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.turn)
		defer cancel()
	}
	if err := r.worker.Run(ctx, key.Workspace, key.ID); err != nil {
		kind := r.worker.kind
		r.worker.cfg.Logger.Error(fmt.Sprintf("%s: a run failed", kind), "workspace", key.Workspace, kind.Name+"_job", key.ID, "error", err, "again_after", retryAfter)
		time.AfterFunc(retryAfter, func() { r.enqueue(Slow, key) })
	}
}

// next removes and returns the first waiting job of the workspace whose turn it is.
func (l *lane) next() Key {
	workspace := l.turns[0]
	ids := l.waiting[workspace]
	l.turns = l.turns[1:]
	if len(ids) > 1 {
		l.waiting[workspace] = ids[1:]
		l.turns = append(l.turns, workspace)
	} else {
		delete(l.waiting, workspace)
	}
	return Key{Workspace: workspace, ID: ids[0]}
}
