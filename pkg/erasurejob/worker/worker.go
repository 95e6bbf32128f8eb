// Package worker carries out erasure jobs: it erases the events of a job's entity page
// by page and saves the progress after each. A Worker does one run of a job; a Runner
// runs all jobs of a local server.
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
	// PageSize is how many events a page has; 100 by default.
	PageSize int

	// MaxRate is the most events that a run looks at in a second, about; 0, the default,
	// for no bound.
	MaxRate int

	// Settle is how long after Job.Until a run begins to erase, so that all events that
	// were created until then have reached the index; record.SyncLag by default.
	Settle time.Duration

	// MaxTries is how many runs in a row may end without having got further before the
	// job fails; 5 by default.
	MaxTries int

	// RetryWait is how long a run waits after the store was unavailable, and at most 16
	// times as long if that lasts; 1 s by default.
	RetryWait time.Duration

	// Grace is how long after the end of its context a run may take to finish a page and
	// to save; 10 s by default.
	Grace time.Duration

	Now    func() time.Time // the clock of the jobs' times; time.Now by default
	Logger *slog.Logger     // slog.Default by default
}

// Worker carries out jobs. It is safe for concurrent use.
type Worker struct {
	store  erasurejob.Store
	events Events
	Config
}

// New returns a Worker.
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

// Run takes a job and works on it until it has ended, another run has taken it or the
// job was requested again, or ctx is done: then Run queues the job for the next run,
// within Config.Grace. Run returns nil in all these cases, and when the job does not
// exist. An error means that the job should be run again; after Config.MaxTries runs in
// a row that got no further, the job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, cancel) })()
	log := w.Logger.With("workspace", workspace, "erasure_job", id)
	j, err := w.take(calls, workspace, id)
	switch {
	case erasurejob.IsNotFound(err):
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

// take gives a job that has not ended to a new run, which holds it until another run
// takes it, it is requested again or the run ends it. A job that has ended is returned
// as it is.
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
