package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// run is one run of a worker.
type run struct {
	*Worker
	calls context.Context // context of store calls; it ends when Config.Grace has passed since the end of the run's context
	job   erasurejob.Job  // the job as stored
	log   *slog.Logger
}

// errTaken means that this run no longer holds the job.
var errTaken = errors.New("the erasure job has ended, was taken by another run or was requested again")

// erase erases the events of the job page by page and then ends the job with the status
// Succeeded. If a page fails because the event store is unavailable, erase waits and tries
// again. If ctx is done or another error occurs, erase returns an error.
func (r *run) erase(ctx context.Context) error {
	if err := r.wait(ctx, r.Settle-r.Now().Sub(r.job.Until.Time()), r.Settle); err != nil {
		return err
	}
	retryWait := r.RetryWait
	for {
		began := r.Now()
		erased, err := r.events.Erase(r.calls, r.job.Workspace, r.page())
		next := r.job
		next.EventsErased += erased.Events
		if err == nil {
			if erased.Last != nil {
				next.Progress.After = erased.Last
			}
			next.Progress.Tries = 0
			if !erased.More {
				return r.save(next.Finish(erasurejob.Succeeded, r.Now()))
			}
			retryWait = r.RetryWait
		}
		if err == nil || erased.Events > 0 {
			if err := r.save(next); err != nil {
				return err
			}
		}
		pause := r.pace() - r.Now().Sub(began)
		if record.KindOf(err) == record.Unavailable {
			r.log.WarnContext(ctx, "a page of events was not erased completely", "error", err, "again_after", retryWait)
			pause, retryWait = retryWait, min(2*retryWait, 16*r.RetryWait)
		} else if err != nil {
			return fmt.Errorf("erase events: %w", err)
		}
		if err := r.wait(ctx, pause, 16*r.RetryWait); err != nil {
			return err
		}
	}
}

// page returns the next page to erase.
func (r *run) page() event.Erasure {
	return event.Erasure{
		EntityID: r.job.ID, Until: r.job.Until, Limit: r.PageSize,
		After: r.job.Progress.After,
	}
}

// pace returns the minimum time between the starts of two successive pages.
func (r *run) pace() time.Duration {
	if r.MaxRate == 0 {
		return 0
	}
	return time.Duration(r.PageSize) * time.Second / time.Duration(r.MaxRate)
}

// wait waits for the duration d, but not longer than maximum. Without the maximum, wait
// could take too long if the clocks of two processes differ. If ctx is done first, wait
// returns the error of ctx.
func (r *run) wait(ctx context.Context, d, maximum time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(min(d, maximum)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// conclude ends the run. err is the result of erase and determines the new state of the
// job.
func (r *run) conclude(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, errTaken):
	case r.job.Progress.Tries >= r.MaxTries && !errors.Is(ctx.Err(), context.Canceled):
		err = r.fail(err)
	case ctx.Err() != nil:
		err = r.handOver(ctx)
	}
	switch {
	case errors.Is(err, errTaken):
		r.log.InfoContext(ctx, errTaken.Error())
		return nil
	case err != nil:
		return fmt.Errorf("erasure job %s: %w", r.job.ID, err)
	}
	r.log.InfoContext(ctx, "run of an erasure job ended", "status", r.job.Status, "events_erased", r.job.EventsErased)
	return nil
}

// fail ends the job with the status Failed and logs the given cause.
func (r *run) fail(cause error) error {
	reason := fmt.Sprintf("The erasure failed %d times in a row at the same place, and events may remain. The service's log says why. Request the erasure again.", r.MaxTries)
	next := r.job.Finish(erasurejob.Failed, r.Now())
	next.Error = &reason
	if err := r.save(next); err != nil {
		return err
	}
	r.log.ErrorContext(r.calls, "erasure job failed", "reason", reason, "error", cause)
	return nil
}

// handOver queues the job for the next run.
func (r *run) handOver(ctx context.Context) error {
	next := r.job
	next.Status, next.Progress.Run = erasurejob.Queued, ""
	if errors.Is(ctx.Err(), context.Canceled) {
		next.Progress.Tries = max(next.Progress.Tries-1, 0) // the program was stopped, so this run does not count as a try
	}
	return r.save(next)
}

// save replaces the stored job with next. It returns errTaken if this run no longer holds
// the job.
func (r *run) save(next erasurejob.Job) error {
	for {
		next.Revision = r.job.Revision + 1
		replaced, err := r.store.Replace(r.calls, next)
		switch {
		case err != nil:
			return fmt.Errorf("save: %w", err)
		case replaced:
			r.job = next
			return nil
		}
		stored, err := r.store.Get(r.calls, next.Workspace, next.ID)
		switch {
		case record.KindOf(err) == record.NotFound:
			return errTaken
		case err != nil:
			return fmt.Errorf("save: %w", err)
		case stored.Progress.Run != r.job.Progress.Run:
			return errTaken
		}
		// An earlier save of this run succeeded, but its response was lost. Try again with
		// a revision that is one higher than the revision of the stored job.
		r.job = stored
		next.EventsErased = max(next.EventsErased, stored.EventsErased)
	}
}
