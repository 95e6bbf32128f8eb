// Package erasurejob erases all events of an entity. It defines the requests and results
// of erasure jobs as clients see them, and the work of one run. Package job manages the life of
// a job.
//
// A job has the id of its entity, so an entity has at most one job. Another request extends
// that job or, if it has ended, replaces it.
package erasurejob

import (
	"context"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Kind keeps a job for 30 days, which is also how long the tombstone of an entity is kept.
var Kind = job.Kind{Name: "erasure", Keep: 30 * 24 * time.Hour, Advice: "Events may remain. Request the erasure again."}

// Job is a job as the API shows it.
type Job struct {
	ID           string       `json:"id"` // the entity's id
	Status       job.Status   `json:"status"`
	EventsErased int64        `json:"events_erased"` // lacks a page if the run was killed right after erasing it
	CreatedAt    record.Time  `json:"created_at"`
	StartedAt    *record.Time `json:"started_at"`
	FinishedAt   *record.Time `json:"finished_at"`
	Error        *string      `json:"error"` // tells users why events may remain
}

type details struct {
	EventsErased int64 `json:"events_erased"`
}

// Request queues a job to erase an entity's events; see [job.Request]. until is the latest
// creation time that the job covers.
func Request(ctx context.Context, s job.Store, workspace, entityID string, until record.Time, now time.Time) (Job, error) {
	j, err := job.Request(ctx, s, job.Job{Workspace: workspace, ID: entityID, Until: until}, now)
	if err != nil {
		return Job{}, err
	}
	return show(j)
}

// Get returns a job that has not expired, or a *record.Error of kind NotFound.
func Get(ctx context.Context, s job.Store, workspace, id string, now time.Time) (Job, error) {
	j, err := Kind.Get(ctx, s, workspace, id, now)
	if err != nil {
		return Job{}, err
	}
	return show(j)
}

func show(j job.Job) (Job, error) {
	var d details
	err := j.Decode(&d, nil)
	return Job{
		ID: j.ID, Status: j.Status, EventsErased: d.EventsErased,
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, Error: j.Error,
	}, err
}
