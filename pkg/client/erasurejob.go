package client

import (
	"context"
	"net/http"

	"sluice/pkg/api"
	"sluice/pkg/erasurejob"
)

// EraseEntity deletes an entity and starts an erasure job. It returns the ID and the
// Status of the job. The job erases all events with the given entity id that were
// created before the call, even if the entity itself does not exist.
//
// While the job is unfinished, a repeated call restarts it, so that the job also erases
// the events that were created since the first call. After the job has finished, a
// repeated call starts a new job.
func (c *Client) EraseEntity(ctx context.Context, id string) (api.Erasing, error) {
	var job api.Erasing
	_, err := c.post(ctx, route{"delete-entity", http.MethodPost, imports}, "/delete_entity", struct {
		ID     string `json:"id"`
		Events bool   `json:"events"`
	}{id, true}, &job)
	return job, err
}

// GetErasureJob returns the erasure job with the given id. The error matches
// ErrNotFound if the job does not exist or ended more than 30 days ago.
func (c *Client) GetErasureJob(ctx context.Context, id string) (erasurejob.Job, error) {
	return getOne[erasurejob.Job](ctx, c, route{"get-erasure-job", http.MethodGet, general}, "/erasure_job/", id)
}

// AwaitErasureJob polls an erasure job until the job has succeeded or failed, and returns
// the job. If seen is not nil, AwaitErasureJob calls it with the result of each poll.
// AwaitErasureJob returns an error if a poll fails. Only the context limits the wait.
func (c *Client) AwaitErasureJob(ctx context.Context, id string, seen func(erasurejob.Job)) (erasurejob.Job, error) {
	return await(ctx, c.GetErasureJob, id, seen, func(j erasurejob.Job) bool { return j.Status.Final() })
}
