package client

import (
	"context"
	"net/http"

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
