// Package worker runs erasure jobs. It erases the events of a job's entity page by page and
// saves the progress after each page. A Worker performs one run of a job. A Runner runs all
// jobs of a local server.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Events is the part of event.Store that a Worker uses.
type Events interface {
	Erase(ctx context.Context, workspace string, q event.Erasure) (event.Erased, error)
}

// Config tunes a Worker. Its zero value is ready to use.
type Config struct {
	// PageSize is the maximum number of events per page. The default is 100.
	PageSize int

	// MaxRate is the approximate maximum number of events that a run reads per second. The
	// default is 0, which means no maximum.
	MaxRate int

	// Settle is the minimum time between Job.Until and the first erasure. During this
	// time, all events created at or before Until reach the index. The default is
	// record.SyncLag.
	Settle time.Duration

	// MaxTries is the number of consecutive runs without progress after which the job
	// fails. The default is 5.
	MaxTries int

	// RetryWait is the time for which a run waits after the event store was unavailable.
	// Each further consecutive failure doubles the wait, up to 16 times RetryWait. The
	// default is 1 s.
	RetryWait time.Duration

	// Grace is the maximum time for which a run continues after the end of its context.
	// During this time, it finishes a page and saves its progress. The default is 10 s.
	Grace time.Duration

	Now    func() time.Time // clock for the times of jobs; time.Now by default
	Logger *slog.Logger     // slog.Default by default
}

// Worker runs erasure jobs. It is safe for concurrent use.
type Worker struct {
	store  erasurejob.Store
	events Events
	Config
}

// New returns a Worker for the jobs in store. It returns an error if store or events is
// nil.
func New(store erasurejob.Store, events Events, cfg Config) (*Worker, error) {
	if store == nil || events == nil {
		return nil, errors.New("worker: a store and events are required")
	}
	cfg.PageSize = cmp.Or(cfg.PageSize, 100)
	cfg.Settle = cmp.Or(cfg.Settle, record.SyncLag)
	cfg.MaxTries = cmp.Or(cfg.MaxTries, 5)
	cfg.RetryWait = cmp.Or(cfg.RetryWait, time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Worker{store: store, events: events, Config: cfg}, nil
}

// Run takes a job and works on it until the job has ended, another run has taken it, the
// job was requested again, or ctx is done. If ctx is done, Run queues the job for the
// next run. Run takes at most Config.Grace for this. Run returns nil in all these cases.
// It also returns nil if the job does not exist. An error means that the caller must run
// the job again. After Config.MaxTries consecutive runs without progress, the job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, cancel) })()
	log := w.Logger.With("workspace", workspace, "erasure_job", id)
	j, err := w.take(calls, workspace, id)
	switch {
	case record.KindOf(err) == record.NotFound:
		log.WarnContext(ctx, "the erasure job does not exist")
		return nil
	case err != nil:
		return fmt.Errorf("take erasure job: %w", err)
	case j.Status.Final():
		return nil
	}
	r := &run{Worker: w, calls: calls, job: j, log: log}
	return r.conclude(ctx, r.erase(ctx))
}

// take assigns an unfinished job to a new run. The run holds the job until it ends the
// job, another run takes the job, or the job is requested again. If the job has already
// ended, take returns it unchanged.
func (w *Worker) take(ctx context.Context, workspace, id string) (erasurejob.Job, error) {
	name := rand.Text()
	for {
		j, err := w.store.Get(ctx, workspace, id)
		if err != nil || j.Status.Final() {
			return j, err
		}
		j.Status = erasurejob.Running
		if j.StartedAt == nil {
			started := record.TimeOf(w.Now())
			j.StartedAt = &started
		}
		j.Progress.Run = name
		j.Progress.Tries++
		j.Revision++
		if replaced, err := w.store.Replace(ctx, j); replaced || err != nil {
			return j, err
		}
	}
}
