package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// saveTimeout bounds the last thing a run saves after its time has ended.
const saveTimeout = 10 * time.Second

// run is one run of a worker.
type run struct {
	*Worker
	ctx   context.Context // of calls that must not end halfway; ends when the run's time is over
	job   exportjob.Job   // as it is stored
	log   *slog.Logger
	saved time.Time // when RecordsWritten was
}

// errTaken means that another run holds the job.
var errTaken = errors.New("another run has the export job")

// errCancelled means that the job was cancelled.
var errCancelled = errors.New("the export job was cancelled")

// failure is why a job cannot succeed, in words for people.
type failure string

func (f failure) Error() string { return string(f) }

// conclude ends the run: it leaves the job as err, the result of export, says.
func (r *run) conclude(reading context.Context, err error) error {
	var reason failure
	switch {
	case err == nil:
		r.log.InfoContext(r.ctx, "export job succeeded", "records", r.job.RecordsWritten, "bytes", *r.job.SizeBytes)
		return nil
	case errors.Is(err, errTaken):
		r.log.InfoContext(r.ctx, "another run has taken the export job")
		return nil
	case errors.Is(err, errCancelled):
		r.log.InfoContext(r.ctx, "export job cancelled")
		r.tidy()
		return nil
	case errors.As(err, &reason):
		return r.fail(reason)
	case reading.Err() != nil:
		return r.handOver()
	case r.job.Progress.Tries >= r.MaxTries:
		r.log.ErrorContext(r.ctx, "export job failed", "error", err)
		return r.fail(failure(fmt.Sprintf("The export failed %d times in a row at the same place. The service's log says why.", r.MaxTries)))
	}
	return fmt.Errorf("export job %s: %w", r.job.ID, err)
}

// tidy removes what a job that did not succeed has left of its file. If it
// cannot, the files' own rule for uploads that nobody completes will.
func (r *run) tidy() {
	if r.job.Status == exportjob.Succeeded || r.job.Progress.Upload == "" {
		return
	}
	ctx, cancel := r.last()
	defer cancel()
	if err := r.files.Abort(ctx, r.job); err != nil {
		r.log.WarnContext(r.ctx, "the upload of an export job that ended was not removed", "error", err)
	}
}

// last returns the context of what a run does when its time may be over.
func (r *run) last() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), saveTimeout)
}

// fail ends the job with a reason.
func (r *run) fail(reason failure) error {
	text := string(reason)
	next := r.job.Finish(exportjob.Failed, r.Now())
	next.Error = &text
	ctx, cancel := r.last()
	defer cancel()
	if err := r.save(ctx, next); err != nil {
		return r.lost(err)
	}
	r.log.ErrorContext(r.ctx, "export job failed", "reason", text)
	r.tidy()
	return nil
}

// handOver queues the job for the next run.
func (r *run) handOver() error {
	next := r.job
	next.Status, next.RecordsWritten = exportjob.Queued, next.Progress.Records
	next.Progress.Run = ""
	if _, limited := r.ctx.Deadline(); !limited {
		next.Progress.Tries-- // the program was stopped: no fault of the job
	}
	ctx, cancel := r.last()
	defer cancel()
	if err := r.save(ctx, next); err != nil {
		return r.lost(err)
	}
	r.log.InfoContext(r.ctx, "export job handed over to the next run", "records", next.RecordsWritten)
	return nil
}

// lost returns the error of a run whose last save failed: nil if the job is no
// longer the run's.
func (r *run) lost(err error) error {
	switch {
	case errors.Is(err, errCancelled):
		r.tidy()
		return nil
	case errors.Is(err, errTaken):
		return nil
	}
	return fmt.Errorf("save export job %s: %w", r.job.ID, err)
}

// save stores next over the job. It fails with errTaken or errCancelled when
// the job is no longer the run's.
func (r *run) save(ctx context.Context, next exportjob.Job) error {
	for {
		next.Revision = r.job.Revision + 1
		stored, replaced, err := r.store.Replace(ctx, next)
		switch missing := new(record.Error); {
		case errors.As(err, &missing) && missing.Kind == record.NotFound:
			return errTaken
		case err != nil:
			return err
		case replaced:
			r.job, r.saved = next, r.Now()
			return nil
		case stored.Status == exportjob.Cancelled:
			r.job = stored
			return errCancelled
		case stored.Status != exportjob.Running || stored.Progress.Run != r.job.Progress.Run:
			return errTaken
		}
		// A save of this run was stored, although its response was lost.
		r.job = stored
	}
}
