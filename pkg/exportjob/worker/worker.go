// Package worker carries out export jobs: it reads the records of a job, writes
// its file in parts, and saves the progress after each part. A Worker does one
// run of a job; a Runner runs all jobs of a local server.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/exportjob"
)

// Config tunes a Worker. Its zero value is ready to use.
type Config struct {
	// PartBytes is the least size of every part but the last. S3 requires 5 MiB,
	// the default.
	PartBytes int

	// MaxParts is the most parts of a file, 4,000 by default: the job must
	// remember them, in an item of at most 400 KB.
	MaxParts int

	// MaxTries is how many runs in a row may end without having looked at further
	// records before the job fails; 5 by default.
	MaxTries int

	// Grace is how long after the end of its context a run may take to upload and
	// save what it has read; 10 s by default.
	Grace time.Duration

	// SaveEvery is how often the number of records written is saved, about; 1 s
	// by default.
	SaveEvery time.Duration

	// Settle is how old a job must be before its records are read, so that all
	// those created before it have reached the indexes; 0 by default.
	Settle time.Duration

	// FileDays is for how many days a file is kept; 7 by default.
	FileDays int

	Now    func() time.Time // the clock of the jobs' times; time.Now by default
	Logger *slog.Logger     // slog.Default by default
}

// Worker carries out jobs. It is safe for concurrent use.
type Worker struct {
	store    exportjob.Store
	entities Entities
	events   Events
	files    exportjob.Files
	flush    bool // each record by itself; only for tests
	Config
}

// New returns a Worker.
func New(store exportjob.Store, entities Entities, events Events, files exportjob.Files, cfg Config) (*Worker, error) {
	if store == nil || entities == nil || events == nil || files == nil {
		return nil, errors.New("worker: a store, records and files are required")
	}
	cfg.PartBytes = cmp.Or(cfg.PartBytes, 5<<20)
	cfg.MaxParts = cmp.Or(cfg.MaxParts, 4000)
	cfg.MaxTries = cmp.Or(cfg.MaxTries, 5)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.SaveEvery = cmp.Or(cfg.SaveEvery, time.Second)
	cfg.FileDays = cmp.Or(cfg.FileDays, 7)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Worker{store: store, entities: entities, events: events, files: files, Config: cfg}, nil
}

// Run takes a job and works on it until it has ended, another run has taken it,
// or ctx is done: then Run saves what it has read and queues the job for the next
// run, within Config.Grace. Of a job that was cancelled or has failed, it removes
// what is left of its file. Run returns nil in all these cases, and when the job
// does not exist. An error means that the job should be run again; after
// Config.MaxTries runs in a row that got no further, the job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, cancel) })()
	j, err := exportjob.Take(calls, w.store, workspace, id, rand.Text(), w.Now())
	log := w.Logger.With("workspace", workspace, "export_job", id)
	if exportjob.IsNotFound(err) {
		log.WarnContext(ctx, "the export job does not exist")
		return nil
	}
	if err != nil {
		return fmt.Errorf("take export job: %w", err)
	}
	r := &run{Worker: w, calls: calls, job: j, log: log}
	if j.Status.Final() {
		return r.tidy()
	}
	return r.conclude(ctx, r.export(ctx))
}
