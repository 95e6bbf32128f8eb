package client

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"sluice/pkg/api"
)

// EraseEntity deletes an entity, starts an erasure job and returns the job's ID and Status. The
// job erases all events of the entity that were created before the call, even if the entity
// itself does not exist.
//
// Another call restarts an unfinished job, which then also erases the events created since the
// first call. If the job has finished, another call starts a new one.
func (c *Client) EraseEntity(ctx context.Context, id string) (api.Erasing, error) {
	var job api.Erasing
	_, err := c.post(ctx, route{"delete-entity", http.MethodPost, classImport}, "/delete_entity", struct {
		ID     string `json:"id"`
		Events bool   `json:"events"`
	}{id, true}, &job)
	return job, err
}

// GetErasureJob returns an erasure job. The error matches ErrNotFound if there is no such job
// or if it ended more than 30 days ago.
func (c *Client) GetErasureJob(ctx context.Context, id string) (api.ErasureJob, error) {
	return getOne[api.ErasureJob](ctx, c, route{"get-erasure-job", http.MethodGet, classGeneral}, "/erasure_job/", id)
}

// AwaitErasureJob polls an erasure job until it has succeeded or failed. If seen is not nil,
// it is called with the result of each poll. AwaitErasureJob fails if a poll fails. Only the
// context limits how long it waits.
func (c *Client) AwaitErasureJob(ctx context.Context, id string, seen func(api.ErasureJob)) (api.ErasureJob, error) {
	return await(ctx, c.GetErasureJob, id, seen, func(j api.ErasureJob) bool { return j.Status.Final() })
}

// HeldSince returns since when export files may hold an entity or its events: since the creation of
// the entity or of its first event, whichever is earlier. It is zero if there is no such entity: the
// entity may have existed at any time. Call it before EraseEntity, and LeftFiles after it. It costs
// two records.
func (c *Client) HeldSince(ctx context.Context, id string) (Time, error) {
	e, err := c.GetEntity(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Time{}, nil
	}
	if err != nil {
		return Time{}, err
	}
	// The first event is the one that occurred first. Others may have been stored before it, but
	// hardly before it occurred.
	first, err := c.ListEvents(ctx, EventQuery{EntityID: id, Ascending: true, Limit: 1})
	since := e.CreatedAt
	for _, ev := range first.Data {
		since = slices.MinFunc([]Time{since, ev.CreatedAt, ev.OccurredAt}, Time.Compare)
	}
	return since, err
}

// LeftFiles returns the export jobs, newest first, whose files may hold an entity or its events.
// since is from HeldSince. Such a job has a file, or is still writing one. CancelExportJob and
// DeleteExportJob remove the file.
func (c *Client) LeftFiles(ctx context.Context, id string, since Time) (left []api.ExportJob, err error) {
	for j, err := range c.ExportJobs(ctx, ExportJobQuery{Limit: maxPage}) {
		if err != nil {
			return nil, err
		}
		if j.CreatedAt.Compare(since) < 0 { // and so are the others
			break
		}
		hasFile := j.Status == api.JobSucceeded && j.Error == nil && j.FileDeletedAt == nil
		other := j.Filters.EntityID != "" && j.Filters.EntityID != id
		if (hasFile || !j.Status.Final()) && !other {
			left = append(left, j)
		}
	}
	return left, nil
}
