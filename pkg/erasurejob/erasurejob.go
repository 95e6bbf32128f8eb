// Package erasurejob holds the erasure job: a client's order to erase all events of an
// entity. It defines what a store of jobs must do. Package worker carries jobs out.
//
// A job has the id of its entity, so an entity has one job at most: while that is
// unfinished, a repeated order extends it, and afterwards starts another in its place.
package erasurejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// HistoryAge is for how long a store keeps a job that has ended, as long as the
// tombstone of its entity.
const HistoryAge = 30 * 24 * time.Hour

// Status is the state of a job.
type Status string

// The statuses. The last two are final.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
)

// Final reports whether a job of this status has ended.
func (s Status) Final() bool { return s == Succeeded || s == Failed }

// Job is an erasure job. Its JSON is that of the API; stores keep more (Marshal).
type Job struct {
	ID           string       `json:"id"` // of the entity
	Status       Status       `json:"status"`
	EventsErased int64        `json:"events_erased"` // at least: those of a page are missing if a run was killed before it saved that
	CreatedAt    record.Time  `json:"created_at"`
	StartedAt    *record.Time `json:"started_at"`
	FinishedAt   *record.Time `json:"finished_at"`
	Error        *string      `json:"error"` // why events may be left, for people

	Workspace string      `json:"-"`
	Until     record.Time `json:"-"` // events that were created at this time or before are erased
	Revision  int64       `json:"-"` // counts the changes of a job, from 1
	Progress  Progress    `json:"-"`
}

// Progress is what a worker needs in order to continue a job.
type Progress struct {
	Run   string    `json:"run,omitzero"`    // the run of a worker that holds the job; "" while none does
	Tries int       `json:"tries,omitzero"`  // runs that took the job since After last moved
	After *Position `json:"after,omitempty"` // of the last event looked at; nil before the first
}

// Position is an event's place in the order in which events are erased.
type Position struct {
	OccurredAt record.Time `json:"occurred_at"`
	ID         string      `json:"id"`
}

// ExpiresAt returns when a job that has ended expires, and false for one that has not.
func (j Job) ExpiresAt() (at time.Time, ok bool) {
	if !j.Status.Final() || j.FinishedAt == nil {
		return time.Time{}, false
	}
	return j.FinishedAt.Time().Add(HistoryAge), true
}

// Finish returns j as it ends now with a status.
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
	// Get returns a job, or a *record.Error of kind NotFound. It sees every change that
	// was made before the call.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// Replace stores j over the job of its id whose Revision is one less or, if j.Revision
	// is 1, if no job has that id. It reports whether it did.
	Replace(ctx context.Context, j Job) (replaced bool, err error)
}

// Key names a job.
type Key struct{ Workspace, ID string }

// Backlog is a store that lists unfinished jobs.
type Backlog interface {
	// Unfinished returns the unfinished jobs of all workspaces.
	Unfinished(ctx context.Context) ([]Key, error)
}

// NotFoundError returns the error of a job that does not exist.
func NotFoundError(id string) error { return record.NotFoundError("erasure job", id) }

// IsNotFound reports whether err is that of a job that does not exist.
func IsNotFound(err error) bool {
	var e *record.Error
	return errors.As(err, &e) && e.Kind == record.NotFound
}

// Get returns a job that has not expired, or a *record.Error of kind NotFound.
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

// Request queues the job that erases the events of an entity that were created at until
// or before. If the entity has an unfinished job, that is queued again with the later
// bound and begins anew: so a job that no worker holds any more runs again. A job that
// has ended is replaced.
func Request(ctx context.Context, s Store, workspace, entityID string, until record.Time, now time.Time) (Job, error) {
	for {
		was, err := s.Get(ctx, workspace, entityID)
		if err != nil && !IsNotFound(err) {
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

// document is a job as stores keep it: in JSON, with what the API does not show.
type document struct {
	Job
	Workspace string      `json:"workspace"`
	Until     record.Time `json:"until"`
	Revision  int64       `json:"revision"`
	Progress  Progress    `json:"progress,omitzero"`
}

// Marshal returns j as JSON, the same bytes for equal jobs.
func Marshal(j Job) ([]byte, error) {
	text, err := json.Marshal(document{j, j.Workspace, j.Until, j.Revision, j.Progress})
	if err != nil {
		return nil, fmt.Errorf("encode erasure job: %w", err)
	}
	return text, nil
}

// Unmarshal decodes what Marshal returned.
func Unmarshal(text []byte) (Job, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return Job{}, fmt.Errorf("decode erasure job: %w", err)
	}
	j := d.Job
	j.Workspace, j.Until, j.Revision, j.Progress = d.Workspace, d.Until, d.Revision, d.Progress
	return j, nil
}
