// Package erasurejob implements erasure jobs and defines the interface of their stores. An
// erasure job erases all events of an entity at the request of a client. Package worker
// runs the jobs.
//
// A job has the id of its entity, so an entity has at most one job. If this job has not
// ended, a further request extends it. If the job has ended, a further request replaces it
// with a new job.
package erasurejob

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// HistoryAge is the time for which a store keeps a job that has ended. It equals the time
// for which the tombstone of the entity is kept.
const HistoryAge = 30 * 24 * time.Hour

// Status is the state of a job.
type Status string

// The statuses of a job. The last two are final.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
)

// Final reports whether a job of this status has ended.
func (s Status) Final() bool { return s == Succeeded || s == Failed }

// Job is an erasure job. Its JSON form is the one in the API. Stores keep additional
// fields (see Marshal).
type Job struct {
	ID           string       `json:"id"` // id of the entity
	Status       Status       `json:"status"`
	EventsErased int64        `json:"events_erased"` // number of erased events; if a run is killed before it saves a page, the events of this page are not counted
	CreatedAt    record.Time  `json:"created_at"`
	StartedAt    *record.Time `json:"started_at"`
	FinishedAt   *record.Time `json:"finished_at"`
	Error        *string      `json:"error"` // reason why events may remain, as text for users

	Workspace string      `json:"-"`
	Until     record.Time `json:"-"` // the job erases the events created at or before this time
	Revision  int64       `json:"-"` // number of the latest change of the job, counted from 1
	Progress  Progress    `json:"-"`
}

// Progress is the state from which a worker continues a job.
type Progress struct {
	Run   string           `json:"run,omitzero"`    // name of the worker run that holds the job; "" if no run holds it
	Tries int              `json:"tries,omitzero"`  // number of runs that have taken the job since the last change of After
	After *record.Position `json:"after,omitempty"` // position of the last event that was read; nil before the first event
}

// ExpiresAt returns the time at which j expires. If j has not ended, ok is false.
func (j Job) ExpiresAt() (at time.Time, ok bool) {
	if !j.Status.Final() || j.FinishedAt == nil {
		return time.Time{}, false
	}
	return j.FinishedAt.Time().Add(HistoryAge), true
}

// Finish returns a copy of j with the given final status. The FinishedAt of the copy is the
// given time, and the copy has no Progress.
func (j Job) Finish(status Status, now time.Time) Job {
	at := record.TimeOf(now)
	j.Status, j.FinishedAt, j.Progress = status, &at, Progress{}
	return j
}

// Store keeps jobs by workspace and id. Implementations are safe for concurrent use. A
// workspace is a non-empty string without '#'.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Get returns a job, or a *record.Error of kind NotFound. The read sees every change
	// made before the call.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// Replace stores j if the stored job with the same id has the Revision j.Revision-1.
	// If j.Revision is 1, Replace stores j only if no job with this id exists. It reports
	// whether it stored j.
	Replace(ctx context.Context, j Job) (replaced bool, err error)
}

// Key identifies a job.
type Key struct{ Workspace, ID string }

// Backlog lists the unfinished jobs of a store.
type Backlog interface {
	// Unfinished returns the unfinished jobs of all workspaces.
	Unfinished(ctx context.Context) ([]Key, error)
}

// NotFoundError returns the error for a job that does not exist.
func NotFoundError(id string) error { return record.NotFoundError("erasure job", id) }

// Get returns a job that has not expired by the given time, or a *record.Error of kind
// NotFound.
func Get(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	if err != nil {
		return Job{}, err
	}
	if at, ok := j.ExpiresAt(); ok && !now.Before(at) {
		return Job{}, NotFoundError(id)
	}
	return j, nil
}

// Request queues a job that erases events of an entity. The parameter until is the Until of
// the job, so the job erases the events that were created at or before this time. If the
// entity has an unfinished job, Request queues that job again, and the job starts over. If the
// Until of that job is later than the given one, Request does not change it. A request also
// restarts a job whose worker was killed. If the job of the entity has ended, a new job
// replaces it.
func Request(ctx context.Context, s Store, workspace, entityID string, until record.Time, now time.Time) (Job, error) {
	for {
		was, err := s.Get(ctx, workspace, entityID)
		if err != nil && record.KindOf(err) != record.NotFound {
			return Job{}, err
		}
		j := Job{ID: entityID, Workspace: workspace, CreatedAt: record.TimeOf(now), Until: until}
		if err == nil && !was.Status.Final() {
			j = was
			if j.Until.Compare(until) < 0 {
				j.Until = until
			}
		}
		j.Status, j.Progress, j.Revision = Queued, Progress{}, was.Revision+1
		if replaced, err := s.Replace(ctx, j); replaced || err != nil {
			return j, err
		}
		if err := ctx.Err(); err != nil {
			return Job{}, record.UnavailableError("request erasure", err)
		}
	}
}

// document is the JSON form in which stores keep a job, including the fields that the API
// does not show.
type document struct {
	Job
	Workspace string      `json:"workspace"`
	Until     record.Time `json:"until"`
	Revision  int64       `json:"revision"`
	Progress  Progress    `json:"progress,omitzero"`
}

// Marshal returns the JSON in which stores keep j. Equal jobs have equal JSON.
func Marshal(j Job) ([]byte, error) {
	text, err := json.Marshal(document{j, j.Workspace, j.Until, j.Revision, j.Progress})
	if err != nil {
		return nil, fmt.Errorf("encode erasure job: %w", err)
	}
	return text, nil
}

// Unmarshal decodes the JSON that Marshal returned.
func Unmarshal(text []byte) (Job, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return Job{}, fmt.Errorf("decode erasure job: %w", err)
	}
	j := d.Job
	j.Workspace, j.Until, j.Revision, j.Progress = d.Workspace, d.Until, d.Revision, d.Progress
	return j, nil
}
