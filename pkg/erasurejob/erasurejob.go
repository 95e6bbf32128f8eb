// Package erasurejob erases all events of an entity. It defines what requests do to erasure jobs,
// and the work of one run. Package api has the JSON that clients see, and package job manages the
// life of a job.
//
// A job has the id of its entity, so an entity has at most one job. Another request extends
// that job or, if it has ended, replaces it.
package erasurejob

import (
	"context"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Kind keeps a job for 30 days, which is also how long the tombstone of an entity is kept.
var Kind = job.Kind{Name: "erasure", Keep: 30 * 24 * time.Hour, Advice: "Events may remain. Request the erasure again."}

type details struct {
	EventsErased int64 `json:"events_erased"`
}

// Request queues a job to erase an entity's events; see [job.Request]. until is the latest
// creation time that the job covers.
func Request(ctx context.Context, s job.Store, workspace, entityID string, until record.Time, now time.Time) (api.ErasureJob, error) {
	j, err := job.Request(ctx, s, job.Job{Workspace: workspace, ID: entityID, Until: until}, now)
	if err != nil {
		return api.ErasureJob{}, err
	}
	return show(j)
}

// Get returns a job that has not expired, or a *record.Error with code NotFound.
func Get(ctx context.Context, s job.Store, workspace, id string, now time.Time) (api.ErasureJob, error) {
	j, err := Kind.Get(ctx, s, workspace, id, now)
	if err != nil {
		return api.ErasureJob{}, err
	}
	return show(j)
}

func show(j job.Job) (api.ErasureJob, error) {
	var d details
	err := j.Decode(&d, nil)
	return api.ErasureJob{
		ID: j.ID, Status: j.Status, EventsErased: d.EventsErased,
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, Error: j.Error,
	}, err
}
