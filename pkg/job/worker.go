package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/record"
)

// Work is what the runs of one kind of job do. It is safe for concurrent use.
type Work interface {
	// Do performs the remaining work of r.Job, and returns the job's final details. It calls r.Save
	// from time to time, so that the next run can continue if this one is killed, and returns soon
	// after ctx is done. If it returns a [Failure], the job fails with that text. After any other
	// error, another run tries again.
	Do(ctx context.Context, r *Run) (details any, err error)

	// Clean removes what a failed or cancelled job has left behind. It may be called repeatedly,
	// and while a run that has lost the job is still working.
	Clean(ctx context.Context, j Job) error
}

// Failure is the reason why a job fails for good, written for the job's owner.
type Failure string

func (f Failure) Error() string { return string(f) }

// Config tunes a Worker. Its zero value is ready to use.
type Config struct {
	Settle   time.Duration    // minimum time from Job.Until to the first read, so that all records created until Job.Until have reached the indexes; 0 by default
	Grace    time.Duration    // how long a run may go on after its context is done, to save its checkpoint; 10 s by default
	MaxTries int              // how many runs in a row may make no progress before the job fails; 5 by default
	Now      func() time.Time // clock for the times of jobs; time.Now by default
	Logger   *slog.Logger     // slog.Default by default

	ended func(Status) // see Runner.OnEnd
}

// Worker runs the jobs of one kind. It is safe for concurrent use.
type Worker struct {
	kind  Kind
	store Store
	work  Work
	cfg   Config
}

// NewWorker fails if store or work is nil.
func NewWorker(kind Kind, store Store, work Work, cfg Config) (*Worker, error) {
	if store == nil || work == nil {
		return nil, errors.New("job: a store and work are required")
	}
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.MaxTries = cmp.Or(cfg.MaxTries, 5)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Worker{kind: kind, store: store, work: work, cfg: cfg}, nil
}

// Run takes a job and works on it until the job ends, another run takes it, a client requests it
// again, or ctx is done. If ctx is done, Run queues the job for the next run. Run also cleans up
// after a job that failed or was cancelled.
//
// The error is nil in all these cases, and if the job does not exist. An error means that the
// caller must run the job again. After Config.MaxTries runs in a row without progress, the
// job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.cfg.Grace, cancel) })()
	log := w.cfg.Logger.With("workspace", workspace, w.kind.Name+"_job", id)
	j, err := take(calls, w.store, workspace, id, rand.Text(), w.cfg.Now())
	switch {
	case record.CodeOf(err) == record.NotFound:
		log.WarnContext(ctx, fmt.Sprintf("the %s does not exist", w.kind))
		return nil
	case err != nil:
		return fmt.Errorf("take %s: %w", w.kind, err)
	}
	r := &Run{Job: j, Calls: calls, Log: log, worker: w}
	if j.Status.Final() {
		return r.clean()
	}
	return r.conclude(ctx, r.do(ctx))
}
