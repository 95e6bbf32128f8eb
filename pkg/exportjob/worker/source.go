package worker

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// Entities is the part of an entity.Store that exports use.
type Entities interface {
	List(ctx context.Context, workspace string, q entity.Query) (entity.Page, error)
	Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error)
}

// Events is the part of an event.Store that exports use.
type Events interface {
	List(ctx context.Context, workspace string, q event.Query) (event.Page, error)
	Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error)
}

// row is a record on its way into a file.
type row struct {
	cursor string // its place among the records
	record interface {
		AppendJSON(b []byte) ([]byte, error)
	}
	attributes record.Attributes
}

// source reads the records of a job, in the order of the file: entities by id,
// events by the time at which they occurred, oldest first, then by id.
type source struct {
	// list returns the next records after a cursor, and the cursor of the last
	// one. It leaves out the records that were created after the job.
	list  func(ctx context.Context, after string) (rows []row, last string, more bool, err error)
	count func(ctx context.Context) (int64, error)
}

// source returns the source of the records of j.
func (w *Worker) source(j exportjob.Job) source {
	if j.Resource == exportjob.Entity {
		return entitySource(w.entities, j)
	}
	return eventSource(w.events, j)
}

func entitySource(entities Entities, j exportjob.Job) source {
	q := entity.Query{Type: j.Filters.Type}
	return source{
		list: func(ctx context.Context, after string) (rows []row, last string, more bool, err error) {
			q := q
			q.AfterID, q.Limit = after, pageRecords
			page, err := entities.List(ctx, j.Workspace, q)
			last = after
			for _, e := range page.Entities {
				last = e.ID
				if e.CreatedAt.Compare(j.CreatedAt) <= 0 {
					rows = append(rows, row{cursor: last, record: e, attributes: e.Attributes})
				}
			}
			return rows, last, page.More, err
		},
		count: func(ctx context.Context) (int64, error) { return entities.Count(ctx, j.Workspace, q, j.CreatedAt) },
	}
}

func eventSource(events Events, j exportjob.Job) source {
	q := event.Query{EntityID: event.OptionalID(j.Filters.EntityID), From: j.Filters.From, To: j.Filters.To, Ascending: true}
	return source{
		list: func(ctx context.Context, after string) (rows []row, last string, more bool, err error) {
			q := q
			q.Limit = pageRecords
			if q.After, err = parsePosition(after); err != nil {
				return nil, "", false, err
			}
			page, err := events.List(ctx, j.Workspace, q)
			last = after
			for _, e := range page.Events {
				last = e.Position().String()
				if e.CreatedAt.Compare(j.CreatedAt) <= 0 {
					rows = append(rows, row{cursor: last, record: e, attributes: e.Attributes})
				}
			}
			return rows, last, page.More, err
		},
		count: func(ctx context.Context) (int64, error) { return events.Count(ctx, j.Workspace, q, j.CreatedAt) },
	}
}

// parsePosition parses the text of an event.Position; nil for "".
func parsePosition(text string) (*event.Position, error) {
	if text == "" {
		return nil, nil
	}
	at, id, _ := strings.Cut(text, "#")
	occurred, err := record.ParseTime(at)
	if err != nil {
		return nil, fmt.Errorf("cursor %q: %w", text, err)
	}
	return &event.Position{OccurredAt: occurred, ID: id}, nil
}

// pageRecords is the most records of a page. Stores end pages of large records
// earlier (record.MaxPageBytes).
const pageRecords = 2000

// eachPage calls do with the records after a cursor, page by page, until the
// first error; the end of ctx is one. It reads the next page while do runs.
func (s source) eachPage(ctx context.Context, after string, do func(rows []row) error) error {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan []row)
	g.Go(func() error {
		defer close(pages)
		for more := true; more; {
			var rows []row
			var err error
			if rows, after, more, err = s.list(ctx, after); err != nil {
				return err
			}
			select {
			case pages <- rows:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	g.Go(func() error {
		for rows := range pages {
			if err := do(rows); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
