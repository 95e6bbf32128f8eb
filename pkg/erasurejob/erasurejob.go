// Package erasurejob erases all events of an entity. It defines what requests do to erasure jobs,
// and the work of one run. Package api has the JSON that clients see, and package job manages the
// life of a job.
//
// The request stores the job before the tombstone, so that whatever fails, the job completes the
// erasure. A job has the id of its entity, so an entity has at most one job. Another request extends
// that job or, if it has ended, replaces it.
package erasurejob

import (
	"context"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Kind keeps a job for 30 days, which is also how long the tombstone of an entity is kept.
var Kind = job.Kind{Name: "erasure", Keep: 30 * 24 * time.Hour, Advice: "Events may remain. Request the erasure again."}

type details struct {
	EventsErased int64 `json:"events_erased"`
}

// Requester starts erasures.
type Requester interface {
	// Request stores the job of an erasure and then, in place of the entity, a tombstone. If it
	// fails between the two, the job's run completes what is missing. So nothing says that an entity
	// is erased without a job that erases its events. Whatever the same clock stamps after the call
	// is later than the job's Until, and stays.
	Request(ctx context.Context, workspace, id string) (job.Job, error)
}

// Request erases an entity, if it exists, and queues a job that erases the events which refer to it.
// The error has code Invalid if id is not valid.
func Request(ctx context.Context, s Requester, workspace, id string) (api.ErasureJob, error) {
	if err := entity.CheckGivenID(id).Err(); err != nil {
		return api.ErasureJob{}, err
	}
	j, err := s.Request(ctx, workspace, id)
	if err != nil {
		return api.ErasureJob{}, err
	}
	return show(j)
}

// Entities is the part of entity.Store that erasures need.
type Entities interface {
	Write(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, written bool, err error)
}

// Requests is a Requester for stores that have no common transaction.
type Requests struct {
	Jobs     job.Store
	Entities Entities
	Now      func() time.Time
}

// mostAhead is how far a job's Until can be ahead of a clock unless a clock is wrong: the difference
// between two clocks, and a millisecond after the previous Until, which itself must have passed.
const mostAhead = 2*record.MaxClockSkew + 2*time.Millisecond

// Request implements Requester. The job's Until can be ahead of this clock, after a request by
// another one. Request then waits until the clock has passed it.
func (s Requests) Request(ctx context.Context, workspace, id string) (job.Job, error) {
	asked := s.Now()
	j, err := job.Request(ctx, s.Jobs, job.Job{Workspace: workspace, ID: id}, asked)
	if err != nil {
		return job.Job{}, err
	}
	if _, _, err := s.Entities.Write(ctx, workspace, entity.Erasure(id, j.Until, asked)); err != nil {
		return job.Job{}, err
	}
	passed := j.Until.Time().Add(time.Millisecond) // stamps have no fractions of a millisecond
	if err := job.Wait(ctx, passed.Sub(s.Now()), mostAhead); err != nil {
		return job.Job{}, record.UnavailableError("erase entity", err)
	}
	return j, nil
}

// Queuing is a Requester for jobs that Requester stores without Jobs, which then runs them.
type Queuing struct {
	Requester
	Jobs *job.Runner
}

// Request implements Requester.
func (q Queuing) Request(ctx context.Context, workspace, id string) (job.Job, error) {
	j, err := q.Requester.Request(ctx, workspace, id)
	if err == nil {
		q.Jobs.Queue(j)
	}
	return j, err
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
