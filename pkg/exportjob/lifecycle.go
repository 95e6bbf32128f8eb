package exportjob

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sluice/pkg/record"
)

// noun is what errors call a job.
const noun = "export job"

// NotFoundError returns the error of a job that does not exist.
func NotFoundError(id string) error { return record.NotFoundError(noun, id) }

// IsNotFound reports whether err is that of a job that does not exist.
func IsNotFound(err error) bool {
	var e *record.Error
	return errors.As(err, &e) && e.Kind == record.NotFound
}

// TooManyError returns the error of a workspace that has reached its quota of
// unfinished jobs.
func TooManyError(quota int) error {
	return &record.Error{Kind: record.TooMany, Detail: fmt.Sprintf("the workspace has %d export jobs that are queued or running, which is the most allowed; wait until one has ended, or cancel one", quota)}
}

// Create validates j, queues it at now and stores it, unless the workspace has
// quota unfinished jobs already: then it fails with kind TooMany. A repeat with
// the same content changes nothing, whatever the quota, and returns the stored
// job with created false; with other content it fails with kind Conflict.
func Create(ctx context.Context, s Store, j Job, quota int, now time.Time) (stored Job, created bool, err error) {
	if err := j.Validate(); err != nil {
		return Job{}, false, err
	}
	switch {
	case j.Format != CSV:
		j.CSVFormulas = ""
	case j.CSVFormulas == "":
		j.CSVFormulas = Neutralize
	}
	j.Status, j.CreatedAt, j.Revision = Queued, record.TimeOf(now), 1
	stored, created, err = s.Create(ctx, j, quota)
	if err != nil {
		return Job{}, false, err
	}
	if !created && !j.sameOrder(stored) {
		return Job{}, false, record.ConflictError(noun, j.ID)
	}
	return stored, created, nil
}

// sameOrder reports whether j and k ask for the same file.
func (j Job) sameOrder(k Job) bool {
	return j.Resource == k.Resource && j.Format == k.Format && j.CSVFormulas == k.CSVFormulas && reflect.DeepEqual(j.Filters, k.Filters)
}

// Cancel ends a job that has not ended. If a worker runs it, the worker stops
// when it next saves its progress. A run in the fast lane removes what the job has
// of a file. A job that is cancelled already is returned as it is, so the call can
// be repeated. For one that has succeeded or failed, the error is a *record.Error
// of kind Conflict.
func Cancel(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		if j.Status.Final() {
			return Job{}, &record.Error{Kind: record.Conflict, Detail: fmt.Sprintf("the export job has %s already; only one that is queued or running can be cancelled", j.Status)}
		}
		return j.Finish(Cancelled, now), nil
	}, func(j Job) bool { return j.Status == Cancelled })
}

// Take gives a job that has not ended to a run of a worker, which holds it until
// another run takes it, it is cancelled or the run ends it. A job that has ended
// is returned as it is.
func Take(ctx context.Context, s Store, workspace, id, run string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		j.Status = Running
		if j.StartedAt == nil {
			started := record.TimeOf(now)
			j.StartedAt = &started
		}
		j.RecordsWritten = j.Progress.Records // what the last run had not saved is gone
		j.Progress.Run = run
		j.Progress.Tries++
		return j, nil
	}, func(j Job) bool { return j.Status.Final() })
}

// change replaces a job by what edit returns for it, again until no other change
// came between. A job that is settled is returned as it is.
func change(ctx context.Context, s Store, workspace, id string, edit func(Job) (Job, error), settled func(Job) bool) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	for err == nil && !settled(j) {
		var next Job
		if next, err = edit(j); err != nil {
			break
		}
		next.Revision++
		var replaced bool
		if j, replaced, err = s.Replace(ctx, next); replaced {
			return j, err
		}
	}
	return j, err
}

// Finish returns j as it ends now with a status. Of its progress it keeps what is
// needed to remove an upload.
func (j Job) Finish(status Status, now time.Time) Job {
	at := record.TimeOf(now)
	j.Status, j.FinishedAt = status, &at
	j.Progress = Progress{Upload: j.Progress.Upload}
	if status == Succeeded {
		j.Progress = Progress{}
	}
	return j
}

// Show returns j with a link to its file; or, if the file has expired, with an
// error that says so.
func Show(ctx context.Context, links Links, j Job, now time.Time) (Job, error) {
	switch {
	case j.Status != Succeeded:
		return j, nil
	case j.FileExpiresAt != nil && j.FileExpiresAt.Compare(record.TimeOf(now)) <= 0:
		reason := fmt.Sprintf("The file expired at %s. Start the export again to get a new one.", j.FileExpiresAt)
		j.Error = &reason
		return j, nil
	}
	link, err := links.Link(ctx, j)
	if err != nil {
		return Job{}, fmt.Errorf("link to export file: %w", err)
	}
	j.DownloadURL = &link
	return j, nil
}
