package erasurejob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Events is the part of event.Store that an Eraser needs.
type Events interface {
	Erase(ctx context.Context, workspace string, q event.Erasure) (event.Erased, error)
}

// MaxRate is the value of Config.MaxRate on AWS, where ParallelizationFactor in template.yaml
// limits the number of concurrent runs. Together, the runs use at most half of the writes per
// second that an index partition supports, so that new events can use the rest. All events of an
// entity are in one partition of by_entity. With one shard, every other index has all events of a
// workspace in one partition.
const MaxRate = 250

// Config tunes an Eraser. Its zero value is ready to use.
type Config struct {
	PageSize  int           // maximum number of events on a page; 100 by default
	MaxRate   int           // approximate maximum number of events that a run reads per second; 0, the default, for no limit
	RetryWait time.Duration // wait before the first retry while the events are unavailable, 1 s by default; doubles with each retry, up to 16 times RetryWait
}

// Eraser is the [job.Work] of erasure jobs. It completes the erasure of the entity, in case the
// request could not, erases events page by page, and saves a checkpoint after each page. It is safe for concurrent use.
type Eraser struct {
	entities Entities
	events   Events
	Config
}

// NewEraser fails if entities or events is nil.
func NewEraser(entities Entities, events Events, cfg Config) (*Eraser, error) {
	if entities == nil || events == nil {
		return nil, errors.New("erasurejob: records are required")
	}
	cfg.PageSize = cmp.Or(cfg.PageSize, 100)
	cfg.RetryWait = cmp.Or(cfg.RetryWait, time.Second)
	return &Eraser{entities: entities, events: events, Config: cfg}, nil
}

// checkpoint says where the next run continues.
type checkpoint struct {
	Cursor record.Cursor `json:"cursor,omitzero"` // of the first page that is not complete; "" for the first of all
}

// Do implements [job.Work]. While the records are unavailable, it waits and tries again.
func (e *Eraser) Do(ctx context.Context, r *job.Run) (any, error) {
	var done details
	var at checkpoint
	if err := r.Job.Decode(&done, &at); err != nil {
		return nil, err
	}
	defer func() { r.Log = r.Log.With("events_erased", done.EventsErased) }()
	retryWait, longest := e.RetryWait, 16*e.RetryWait
	for {
		began := r.Now()
		erased, err := e.page(r, at.Cursor)
		done.EventsErased += erased.Events
		if err == nil {
			if erased.Next == "" {
				return done, nil
			}
			at.Cursor, retryWait = erased.Next, e.RetryWait
		}
		if err == nil || erased.Events > 0 {
			if err := r.Save(done, at, err == nil); err != nil {
				return nil, err
			}
		}
		pause := e.pace() - r.Now().Sub(began)
		if record.CodeOf(err) == record.Unavailable {
			r.Log.WarnContext(ctx, "a page was not erased completely", "error", err, "again_after", retryWait)
			pause, retryWait = retryWait, min(2*retryWait, longest)
		} else if err != nil {
			return nil, fmt.Errorf("erase: %w", err)
		}
		if err := job.Wait(ctx, pause, longest); err != nil {
			return nil, err
		}
	}
}

// page erases the events from cursor on. Before the first of them, it completes the erasure of the
// entity: a request that is still under way sends nothing more when the job has settled.
func (e *Eraser) page(r *job.Run, cursor record.Cursor) (event.Erased, error) {
	if cursor == "" {
		if _, _, err := e.entities.Write(r.Calls, r.Job.Workspace, entity.Completion(r.Job.ID, r.Job.Until)); err != nil {
			return event.Erased{}, err
		}
	}
	return e.events.Erase(r.Calls, r.Job.Workspace, event.Erasure{
		EntityID: r.Job.ID, Until: r.Job.Until, Limit: e.PageSize, Cursor: cursor,
	})
}

// pace is the minimum time from the start of one page to the start of the next.
func (e *Eraser) pace() time.Duration {
	if e.MaxRate == 0 {
		return 0
	}
	return time.Duration(e.PageSize) * time.Second / time.Duration(e.MaxRate)
}

// Clean has nothing to remove.
func (e *Eraser) Clean(context.Context, job.Job) error { return nil }
