package exportjob

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"sluice/pkg/record"
)

// noun is what error messages call a job.
const noun = "export job"

// NotFoundError returns the error of kind NotFound for a job that does not exist.
func NotFoundError(id string) error { return record.NotFoundError(noun, id) }

// TooManyError returns the error of kind TooMany for a workspace that has reached its
// quota of unfinished jobs.
func TooManyError(quota int) error {
	return &record.Error{Kind: record.TooMany, Detail: fmt.Sprintf("the workspace has %d export jobs that are queued or running, which is the maximum; wait until one has ended, or cancel one", quota)}
}

// Create validates j, sets its status to queued and stores it. It returns an error of
// kind TooMany if the workspace already has as many unfinished jobs as quota allows.
//
// If a job with this id exists and describes the same file, Create returns the stored
// job, and created is false. The quota does not matter in this case. If the existing job
// describes another file, Create returns an error of kind Conflict.
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

// sameOrder reports whether j and k describe the same file.
func (j Job) sameOrder(k Job) bool {
	return j.Resource == k.Resource && j.Format == k.Format && j.CSVFormulas == k.CSVFormulas && reflect.DeepEqual(j.Filters, k.Filters)
}

// Cancel cancels a job that has not ended. A running worker stops when it next saves
// its progress, and a run in the fast lane removes the job's file or upload. If the
// job is already cancelled, Cancel returns it unchanged, so the call can be repeated.
// If the job has succeeded or failed, Cancel returns a *record.Error of kind
// Conflict.
func Cancel(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		if j.Status.Final() {
			return Job{}, &record.Error{Kind: record.Conflict, Detail: fmt.Sprintf("the export job has already %s; only a queued or running job can be cancelled", j.Status)}
		}
		return j.Finish(Cancelled, now), nil
	}, func(j Job) bool { return j.Status == Cancelled })
}

// Take assigns a job to a worker's run. The run holds the job until another run takes
// it, or until the job ends. If the job has already ended, Take returns it unchanged.
func Take(ctx context.Context, s Store, workspace, id, run string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		j.Status = Running
		if j.StartedAt == nil {
			started := record.TimeOf(now)
			j.StartedAt = &started
		}
		// Count only the records in saved parts, because this run continues after them.
		j.RecordsWritten = j.Progress.Records
		j.Progress.Run = run
		j.Progress.Tries++
		return j, nil
	}, func(j Job) bool { return j.Status.Final() })
}

// change passes a job to edit and replaces the job with the result. If another request
// modifies the job first, change calls edit again with the modified job. If settled
// returns true for the job, change returns the job as it is.
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

// Finish returns j with the given final status, and with FinishedAt set to now. Finish drops
// the progress. If status is not Succeeded, Finish keeps the id of the upload, so that the
// upload can be removed.
func (j Job) Finish(status Status, now time.Time) Job {
	at := record.TimeOf(now)
	j.Status, j.FinishedAt = status, &at
	j.Progress = Progress{Upload: j.Progress.Upload}
	if status == Succeeded {
		j.Progress = Progress{}
	}
	return j
}

// Show returns j for use in a response. If j has succeeded, Show sets DownloadURL to a new
// link. If the file has expired, Show instead sets Error to a text that says so.
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
