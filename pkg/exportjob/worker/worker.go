// Package worker executes export jobs. It reads the records of a job, writes them to
// the file in parts, and saves the progress after each part. A Worker executes one
// run of a job. A Runner runs all jobs of a local server.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// Config configures a Worker. The zero value is valid.
type Config struct {
	// PartBytes is the minimum size of every part but the last, in bytes. The default
	// is 5 MiB, the minimum that S3 requires.
	PartBytes int

	// MaxParts is the maximum number of parts of a file. The default is 4,000,
	// because a job stores the ETags of its parts in an item of at most 400 KB.
	MaxParts int

	// MaxTries is the number of consecutive runs without progress after which a job
	// fails. The default is 5.
	MaxTries int

	// Grace is the maximum time for which a run continues after its context is done.
	// During this time, it uploads and saves what it has read. The default is 10 s.
	Grace time.Duration

	// SaveEvery is the approximate interval at which the number of written records is
	// saved. The default is 1 s.
	SaveEvery time.Duration

	// Settle is the minimum age of a job when a run begins to read the records. It must
	// be long enough for the indexes to show every record that was created before the job.
	// The default is 0.
	Settle time.Duration

	// FileDays is the number of days for which a file is kept. The default is 7.
	FileDays int

	Now    func() time.Time // clock for the jobs' times; time.Now by default
	Logger *slog.Logger     // slog.Default by default
}

// ParseFileDays parses the value of the environment variable EXPORT_FILE_DAYS for
// Config.FileDays. The error for an invalid value names the variable.
func ParseFileDays(text string) (int, error) {
	days, err := strconv.Atoi(text)
	if err != nil || days < 1 {
		return 0, fmt.Errorf("EXPORT_FILE_DAYS=%q must be a whole number of at least 1", text)
	}
	return days, nil
}

// Worker executes export jobs. It is safe for concurrent use.
type Worker struct {
	store    exportjob.Store
	entities Entities
	events   Events
	files    exportjob.Files
	flush    bool // whether to flush the compressor after each record; only for tests
	Config
}

// New returns a Worker. It returns an error if a store is nil.
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

// Run takes a job and works on it until the job ends, another run takes it, or ctx is
// done. If ctx is done, Run saves what it has read and queues the job for the next run.
// These steps last at most Config.Grace. If the job was cancelled or has failed, Run
// removes its upload and file.
//
// Run returns nil in all these cases. It also returns nil if the job does not exist. An
// error means that the caller must run the job again. After Config.MaxTries consecutive
// runs without progress, the job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, cancel) })()
	j, err := exportjob.Take(calls, w.store, workspace, id, rand.Text(), w.Now())
	log := w.Logger.With("workspace", workspace, "export_job", id)
	if record.KindOf(err) == record.NotFound {
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
