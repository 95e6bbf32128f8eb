package exportjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Create queues a job for an order. If a job with the same order exists, created is false and
// Create returns that job, even if the quota is used up. The error has code Conflict if a job with
// the same id but a different order exists. It is a *job.QuotaError if the workspace already has as
// many unfinished jobs as quota allows.
func Create(ctx context.Context, s job.Store, workspace string, o api.ExportOrder, quota int, now time.Time) (j api.ExportJob, created bool, err error) {
	if err := o.Validate(); err != nil {
		return api.ExportJob{}, false, err
	}
	switch {
	case o.Format != record.CSV:
		o.CSVFormulas = ""
	case o.CSVFormulas == "":
		o.CSVFormulas = api.NeutralizeFormulas
	}
	text, err := json.Marshal(details{ExportOrder: o})
	if err != nil {
		return api.ExportJob{}, false, fmt.Errorf("encode details: %w", err)
	}
	stored, created, err := job.Create(ctx, s, job.Job{Workspace: workspace, ID: o.ID, Quota: quota, Details: text}, now)
	if err != nil {
		return api.ExportJob{}, false, err
	}
	j, d, err := show(stored, now)
	if err == nil && !created && !reflect.DeepEqual(d.ExportOrder, o) {
		return api.ExportJob{}, false, record.ConflictError(Kind.String(), o.ID)
	}
	return j, created, err
}

// Get returns a job. If the job has succeeded, DownloadURL is a new link, unless the file was
// deleted, has expired or is missing. If fileName is not empty, a browser saves the file
// under that name, and decompresses it if the name lacks .gz. The error has code Invalid if clients
// may not choose fileName.
func Get(ctx context.Context, s job.Store, links Links, workspace, id, fileName string, now time.Time) (api.ExportJob, error) {
	stored, err := Kind.Get(ctx, s, workspace, id, now)
	if err != nil {
		return api.ExportJob{}, err
	}
	j, d, err := show(stored, now)
	if err != nil {
		return api.ExportJob{}, err
	}
	file := fileOf(stored, d, nil)
	if fileName != "" {
		if err := checkFileName(d.ExportOrder, fileName); err != nil {
			return api.ExportJob{}, record.Fields{{Field: "file_name", Detail: err.Error()}}.Err()
		}
		file.Name = fileName
	}
	if j.Status != job.Succeeded || j.FileDeletedAt != nil || j.Error != nil {
		return j, nil
	}
	link, err := links.Link(ctx, file)
	if errors.Is(err, ErrNoFile) { // somebody removed it, or the service was restored from a backup without it
		reason := "The file is missing. Start the export again to get a new one."
		j.Error = &reason
		return j, nil
	}
	if err != nil {
		return api.ExportJob{}, fmt.Errorf("link to export file: %w", err)
	}
	j.DownloadURL = &link
	return j, nil
}

// List returns a page of jobs; see [job.Store].
func List(ctx context.Context, s job.Store, workspace string, cursor record.Cursor, limit int, now time.Time) (record.Page[api.ExportJob], error) {
	stored, err := s.List(ctx, workspace, cursor, limit)
	page := record.Page[api.ExportJob]{Next: stored.Next}
	for _, one := range stored.Records {
		j, _, wrong := show(one, now)
		page.Records, err = append(page.Records, j), errors.Join(err, wrong)
	}
	return page, err
}

// Cancel cancels a job; see [job.Kind.Cancel].
func Cancel(ctx context.Context, s job.Store, workspace, id string, now time.Time) (api.ExportJob, error) {
	stored, err := Kind.Cancel(ctx, s, workspace, id, now)
	if err != nil {
		return api.ExportJob{}, err
	}
	j, _, err := show(stored, now)
	return j, err
}

// DeleteFile deletes the file of a job that has succeeded. A job that has failed or was cancelled
// has no file, so nothing changes. The error has code Conflict if the job has not ended.
//
// The job says that the file is deleted only after it is. If DeleteFile fails between the two,
// links to the file lead nowhere, and another call completes the deletion.
func DeleteFile(ctx context.Context, s job.Store, files Deleter, workspace, id string, now time.Time) (api.ExportJob, error) {
	stored, err := Kind.Get(ctx, s, workspace, id, now)
	if err != nil {
		return api.ExportJob{}, err
	}
	j, d, err := show(stored, now)
	switch {
	case err != nil:
		return api.ExportJob{}, err
	case !j.Status.Final():
		return api.ExportJob{}, &record.Error{Code: record.Conflict, Detail: fmt.Sprintf("the %s is %s; cancel it, or wait until it has ended", Kind, j.Status)}
	case j.Status != job.Succeeded || j.FileDeletedAt != nil:
		return j, nil
	}
	if err := files.Delete(ctx, fileOf(stored, d, nil)); err != nil {
		return api.ExportJob{}, fmt.Errorf("delete export file: %w", err)
	}
	stored, err = job.Amend(ctx, s, stored, func(text json.RawMessage) (json.RawMessage, error) {
		var d details
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("decode details: %w", err)
		}
		if d.FileDeletedAt == nil {
			at := record.TimeOf(now)
			d.FileDeletedAt = &at
		}
		return json.Marshal(d)
	})
	if err != nil {
		return api.ExportJob{}, err
	}
	j, _, err = show(stored, now)
	return j, err
}

// show returns the job as the API shows it, and its details. Error also says that the file has
// expired.
func show(stored job.Job, now time.Time) (api.ExportJob, details, error) {
	var d details
	err := stored.Decode(&d, nil)
	j := api.ExportJob{
		ID: stored.ID, Resource: d.Resource, Format: d.Format, Filters: d.Filters, Status: stored.Status,
		RecordsWritten: d.RecordsWritten, RecordsExpected: d.RecordsExpected, SizeBytes: d.SizeBytes,
		CreatedAt: stored.CreatedAt, StartedAt: stored.StartedAt, FinishedAt: stored.FinishedAt,
		FileExpiresAt: d.FileExpiresAt, FileDeletedAt: d.FileDeletedAt, Error: stored.Error,
	}
	if at := d.FileExpiresAt; j.Status == job.Succeeded && at != nil && d.FileDeletedAt == nil && at.Compare(record.TimeOf(now)) <= 0 {
		reason := fmt.Sprintf("The file expired at %s. Start the export again to get a new one.", at)
		j.Error = &reason
	}
	return j, d, err
}
