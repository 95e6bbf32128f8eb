package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/record"
)

// Run is one run of a job, as [Work] receives it.
type Run struct {
	Job   Job             // the job as last stored
	Calls context.Context // for calls that should complete; stays alive for Config.Grace after the run's context is done
	Log   *slog.Logger    // adds the job's id to each line; Work may add attributes

	worker *Worker
}

var errLost = errors.New("another run has taken the job, or it has ended or was requested again")

// Now returns the time from Config.Now.
func (r *Run) Now() time.Time { return r.worker.cfg.Now() }

// Save stores details, which lists show, and checkpoint, from which the next run continues.
// Pass true for further if the run has made progress since it last passed true. The job's tries
// then start again from 0. If Save fails, the run must end with that error.
func (r *Run) Save(details, checkpoint any, further bool) error {
	shown, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode details: %w", err)
	}
	saved, err := json.Marshal(checkpoint)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	return r.change(func(j *Job) {
		j.Details, j.Checkpoint = shown, saved
		if further {
			j.Tries = 0
		}
	})
}

// Wait waits for the shorter of d and most, because d can be far too long if the clocks of two
// processes differ. It fails if ctx is done.
func Wait(ctx context.Context, d, most time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(min(d, most)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Run) do(ctx context.Context) error {
	w := r.worker
	if r.Job.Tries > w.cfg.MaxTries {
		return w.stuck("was started %d times in a row and stopped each time without progress.")
	}
	if err := Wait(ctx, w.cfg.Settle-r.Now().Sub(r.Job.Until.Time()), w.cfg.Settle); err != nil {
		return err
	}
	details, err := w.work.Do(ctx, r)
	if err != nil {
		return err
	}
	shown, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode details: %w", err)
	}
	return r.change(func(j *Job) {
		*j = w.kind.Finish(*j, Succeeded, r.Now())
		j.Details = shown
	})
}

// stuck returns the Failure for a job that makes no progress. format contains %d for MaxTries.
func (w *Worker) stuck(format string) Failure {
	text := "The " + w.kind.Name + " " + fmt.Sprintf(format, w.cfg.MaxTries)
	if w.kind.Advice != "" {
		text += " " + w.kind.Advice
	}
	return Failure(text)
}

// conclude ends the run. What becomes of the job depends on err, the error from r.do.
func (r *Run) conclude(ctx context.Context, err error) error {
	w := r.worker
	var reason Failure
	switch {
	case err == nil, errors.Is(err, errLost):
	case errors.As(err, &reason):
		err = r.fail(reason, nil)
	case ctx.Err() != nil:
		err = r.handOver(ctx)
	case r.Job.Tries >= w.cfg.MaxTries:
		err = r.fail(w.stuck("failed %d times in a row at the same place. The service's log says why."), err)
	}
	switch lost := errors.Is(err, errLost); {
	case err != nil && !lost:
		return fmt.Errorf("%s %s: %w", w.kind, r.Job.ID, err)
	case lost && !r.Job.Status.Final():
		r.Log.InfoContext(ctx, errLost.Error())
		return nil
	}
	r.Log.InfoContext(ctx, fmt.Sprintf("%s: a run has ended", w.kind), "status", r.Job.Status)
	if w.cfg.ended != nil && r.Job.Status.Final() {
		w.cfg.ended(r.Job.Status)
	}
	return r.clean()
}

// clean removes what a failed or cancelled job has left behind. Until the job says that it is clean,
// another run cleans up after it too.
func (r *Run) clean() error {
	if r.Job.Status != Failed && r.Job.Status != Cancelled {
		return nil
	}
	if err := r.worker.work.Clean(r.Calls, r.Job); err != nil {
		return fmt.Errorf("clean up after %s %s: %w", r.worker.kind, r.Job.ID, err)
	}
	_, err := change(r.Calls, r.worker.store, r.Job, func(j *Job) (changed bool, err error) {
		changed = j.Unclean && j.Status.Final()
		j.Unclean, j.Quota = false, 0 // see Amend
		return changed, nil
	})
	if err != nil && record.CodeOf(err) != record.NotFound {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// fail ends the job as failed, and logs the cause for the operator.
func (r *Run) fail(reason Failure, cause error) error {
	text := string(reason)
	err := r.change(func(j *Job) {
		*j = r.worker.kind.Finish(*j, Failed, r.Now())
		j.Error = &text
	})
	if err != nil {
		return err
	}
	r.Log.ErrorContext(r.Calls, fmt.Sprintf("%s failed", r.worker.kind), "reason", text, "error", cause)
	return nil
}

// handOver queues the job for the next run.
func (r *Run) handOver(ctx context.Context) error {
	return r.change(func(j *Job) {
		j.Status, j.Run = Queued, ""
		if errors.Is(ctx.Err(), context.Canceled) {
			j.Tries = max(j.Tries-1, 0) // the program was stopped, which is not the job's fault
		}
	})
}

// change stores the job with the changes made by edit. It returns errLost if the run no longer
// owns the job. If the job has ended, r.Job becomes the ended job.
func (r *Run) change(edit func(*Job)) error {
	j, err := change(r.Calls, r.worker.store, r.Job, func(j *Job) (changed bool, err error) {
		if j.Status != Running || j.Run != r.Job.Run {
			return false, errLost
		}
		edit(j)
		return true, nil
	})
	if err == nil || j.Status.Final() {
		r.Job = j
	}
	switch {
	case record.CodeOf(err) == record.NotFound:
		return errLost
	case err != nil:
		return fmt.Errorf("save: %w", err)
	}
	return nil
}
