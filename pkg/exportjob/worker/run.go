package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// run is one run of a worker, on one job.
type run struct {
	*Worker
	calls context.Context // context of calls that must be completed; it ends when Config.Grace has passed since the end of the run's context
	job   exportjob.Job   // the stored job
	log   *slog.Logger
	saved time.Time // time of the latest save of the job

	counted atomic.Pointer[int64] // total number of the job's records; nil until they have been counted
}

// errTaken means that another run has taken the job.
var errTaken = errors.New("another run has the export job")

// errEnded means that another request ended the job, for example a cancellation. The
// field run.job then contains the ended job.
var errEnded = errors.New("the export job has ended")

// failure is the reason why a job fails, as text for users.
type failure string

func (f failure) Error() string { return string(f) }

// conclude ends the run. The parameter err is the result of run.export. It
// determines the status of the job.
func (r *run) conclude(ctx context.Context, err error) error {
	var reason failure
	switch {
	case err == nil, errors.Is(err, errTaken), errors.Is(err, errEnded):
	case errors.As(err, &reason):
		err = r.fail(reason, nil)
	case ctx.Err() != nil:
		err = r.handOver(ctx)
	case r.job.Progress.Tries >= r.MaxTries:
		err = r.fail(failure(fmt.Sprintf("The export failed %d times in a row at the same place. The service's log says why.", r.MaxTries)), err)
	}
	switch {
	case errors.Is(err, errTaken):
		r.log.InfoContext(ctx, "another run has taken the export job")
		return nil
	case err != nil && !errors.Is(err, errEnded):
		return fmt.Errorf("export job %s: %w", r.job.ID, err)
	}
	r.log.InfoContext(ctx, "run of an export job ended", "status", r.job.Status, "records", r.job.RecordsWritten)
	return r.tidy()
}

// tidy removes the upload and the file of a job that failed or was cancelled.
func (r *run) tidy() error {
	if !r.job.Status.Final() || r.job.Status == exportjob.Succeeded {
		return nil
	}
	if err := errors.Join(r.files.Abort(r.calls, r.job), r.files.Delete(r.calls, r.job)); err != nil {
		return fmt.Errorf("remove the file of export job %s: %w", r.job.ID, err)
	}
	return nil
}

// fail ends the job with the status failed. The log shows the reason and the cause.
func (r *run) fail(reason failure, cause error) error {
	text := string(reason)
	next := r.job.Finish(exportjob.Failed, r.Now())
	next.Error = &text
	if err := r.save(next); err != nil {
		return err
	}
	r.log.ErrorContext(r.calls, "export job failed", "reason", text, "error", cause)
	return nil
}

// handOver queues the job for the next run.
func (r *run) handOver(ctx context.Context) error {
	next := r.job
	next.Status, next.RecordsWritten = exportjob.Queued, next.Progress.Records
	next.Progress.Run = ""
	if errors.Is(ctx.Err(), context.Canceled) {
		next.Progress.Tries = max(next.Progress.Tries-1, 0) // the program was stopped, which is not a fault of the job
	}
	return r.save(next)
}

// save replaces the stored job with the given job. It returns errTaken if another run
// holds the job, and errEnded if the job has ended.
func (r *run) save(next exportjob.Job) error {
	next.RecordsExpected = cmp.Or(next.RecordsExpected, r.counted.Load())
	for {
		next.Revision = r.job.Revision + 1
		stored, replaced, err := r.store.Replace(r.calls, next)
		switch {
		case record.KindOf(err) == record.NotFound:
			return errTaken
		case err != nil:
			return fmt.Errorf("save: %w", err)
		case replaced:
			r.job, r.saved = next, r.Now()
			return nil
		case stored.Status.Final():
			r.job = stored
			return errEnded
		case stored.Status != exportjob.Running || stored.Progress.Run != r.job.Progress.Run:
			return errTaken
		}
		// An earlier save of this run succeeded, but its response was lost. Try again
		// with the stored job.
		r.job = stored
	}
}
