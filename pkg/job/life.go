package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// Create queues j as a new job that covers the records created until now. If a job with its id
// exists, Create returns that job, and created is false.
func Create(ctx context.Context, s Store, j Job, now time.Time) (stored Job, created bool, err error) {
	j.Status, j.CreatedAt, j.Revision = Queued, record.TimeOf(now), 1
	j.Until = j.CreatedAt
	return s.Put(ctx, j)
}

// Request queues j even if a job with its id exists; see [Renew].
func Request(ctx context.Context, s Store, j Job, now time.Time) (Job, error) {
	for {
		was, err := s.Get(ctx, j.Workspace, j.ID)
		if err != nil && record.CodeOf(err) != record.NotFound {
			return Job{}, err
		}
		stored, put, err := s.Put(ctx, Renew(was, j, record.TimeOf(now)))
		if expired := record.CodeOf(err) == record.NotFound; put || err != nil && !expired {
			return stored, err
		}
	}
}

// Renew returns what a request for j stores in place of was, the job with its id, or the zero Job if
// there is none. It replaces a job that has ended. It extends any other to cover what was created
// until now, and queues it to start over, even if it is running. Until is later than that of was,
// even if now is not.
func Renew(was, j Job, now record.Time) Job {
	next, until := j, now
	next.CreatedAt = now
	if was.Revision > 0 {
		if !was.Status.Final() {
			next = was
		}
		if until.Compare(was.Until) <= 0 {
			until = record.TimeOf(was.Until.Time().Add(time.Millisecond))
		}
	}
	next.Until, next.Revision = until, was.Revision+1
	next.Status, next.Run, next.Tries, next.Checkpoint = Queued, "", 0, nil
	return next
}

// Get returns a job that has not expired, or an error with code NotFound.
func (k Kind) Get(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	if err == nil && j.ExpiresAt != nil && j.ExpiresAt.Compare(record.TimeOf(now)) <= 0 {
		return Job{}, k.NotFoundError(id)
	}
	return j, err
}

// Cancel ends an unfinished job. The run that owns it stops the next time it saves, and
// another run, in the fast lane, cleans up. A second call changes nothing. The error has kind
// Conflict if the job has succeeded or failed.
func (k Kind) Cancel(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	if err != nil {
		return Job{}, err
	}
	return change(ctx, s, j, func(j *Job) (changed bool, err error) {
		switch {
		case j.Status == Cancelled:
			return false, nil
		case j.Status.Final():
			return false, &record.Error{Code: record.Conflict, Detail: fmt.Sprintf("the %s has already %s; only a queued or running job can be cancelled", k, j.Status)}
		}
		*j = k.Finish(*j, Cancelled, now)
		return true, nil
	})
}

// Amend changes the Details of a job that has ended. If another request changes the job first,
// edit is called again. The job no longer counts against a quota, so its Quota becomes 0, which
// spares the store a transaction.
func Amend(ctx context.Context, s Store, j Job, edit func(details json.RawMessage) (json.RawMessage, error)) (Job, error) {
	return change(ctx, s, j, func(j *Job) (changed bool, err error) {
		j.Quota = 0
		j.Details, err = edit(j.Details)
		return err == nil, err
	})
}

// Finish returns j with a final status.
func (k Kind) Finish(j Job, status Status, now time.Time) Job {
	at, expires := record.TimeOf(now), record.TimeOf(now.Add(k.Keep))
	j.Status, j.FinishedAt, j.ExpiresAt = status, &at, &expires
	j.Run, j.Tries, j.Checkpoint = "", 0, nil
	j.Unclean = status != Succeeded
	return j
}

// take makes a run the owner of a job until another run takes the job, the job ends, or a client
// requests it again. take does not change a job that has ended.
func take(ctx context.Context, s Store, workspace, id, run string, now time.Time) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	if err != nil {
		return Job{}, err
	}
	return change(ctx, s, j, func(j *Job) (changed bool, err error) {
		if j.Status.Final() {
			return false, nil
		}
		if j.StartedAt == nil {
			at := record.TimeOf(now)
			j.StartedAt = &at
		}
		j.Status, j.Run = Running, run
		j.Tries++
		return true, nil
	})
}

// change stores j with the changes made by edit, and returns the job as stored after the call.
// If another request changes the job first, edit is called again with the changed job.
func change(ctx context.Context, s Store, j Job, edit func(*Job) (changed bool, err error)) (Job, error) {
	for {
		next := j
		if changed, err := edit(&next); !changed || err != nil {
			return j, err
		}
		next.Revision++
		stored, put, err := s.Put(ctx, next)
		if put || err != nil {
			return stored, err
		}
		j = stored
	}
}
