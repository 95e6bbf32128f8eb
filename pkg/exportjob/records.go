package exportjob

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Entities is where entities come from: the part of an entity.Store that
// exports use.
type Entities interface {
	List(ctx context.Context, workspace string, q entity.Query) (entity.Page, error)
	Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error)
}

// Events is where events come from: the part of an event.Store that exports use.
type Events interface {
	List(ctx context.Context, workspace string, q event.Query) (event.Page, error)
	Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error)
}

// row is a record on its way into a file.
type row struct {
	cursor     string // its place among the records
	value      any    // its JSON is its shape on the wire
	attributes record.Attributes
}

// source reads the records of a job, in the order of the file: entities by id,
// events by the time at which they occurred, oldest first, then by id.
type source struct {
	// list returns the records behind a cursor, at most limit of them, and the
	// cursor of the last one; of those it leaves out the records that were
	// created after the job.
	list  func(ctx context.Context, after string, limit int) (rows []row, last string, more bool, err error)
	count func(ctx context.Context) (int64, error)
}

// source is where the records of j are.
func (w *Worker) source(j Job) source {
	if j.Resource == Entity {
		return entitySource(w.entities, j)
	}
	return eventSource(w.events, j)
}

func entitySource(entities Entities, j Job) source {
	q := entity.Query{Type: j.Filters.Type}
	return source{
		list: func(ctx context.Context, after string, limit int) (rows []row, last string, more bool, err error) {
			q := q
			q.AfterID, q.Limit = after, limit
			page, err := entities.List(ctx, j.Workspace, q)
			last = after
			for _, e := range page.Entities {
				last = e.ID
				if e.CreatedAt.Compare(j.CreatedAt) <= 0 {
					rows = append(rows, row{cursor: e.ID, value: e, attributes: e.Attributes})
				}
			}
			return rows, last, page.More, err
		},
		count: func(ctx context.Context) (int64, error) { return entities.Count(ctx, j.Workspace, q, j.CreatedAt) },
	}
}

func eventSource(events Events, j Job) source {
	q := event.Query{EntityID: event.OptionalID(j.Filters.EntityID), From: j.Filters.From, To: j.Filters.To, Ascending: true}
	return source{
		list: func(ctx context.Context, after string, limit int) (rows []row, last string, more bool, err error) {
			q := q
			q.Limit = limit
			if q.After, err = parsePosition(after); err != nil {
				return nil, "", false, err
			}
			page, err := events.List(ctx, j.Workspace, q)
			last = after
			for _, e := range page.Events {
				last = e.Position().String()
				if e.CreatedAt.Compare(j.CreatedAt) <= 0 {
					rows = append(rows, row{cursor: last, value: e, attributes: e.Attributes})
				}
			}
			return rows, last, page.More, err
		},
		count: func(ctx context.Context) (int64, error) { return events.Count(ctx, j.Workspace, q, j.CreatedAt) },
	}
}

// parsePosition reads the text of an event.Position; nil for "".
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

// Pages are as long as pageBytes of records are, by the size of those of the
// page before: about what one query of DynamoDB brings at most (1 MB).
const (
	firstPage = 250 // records
	minPage   = 10
	maxPage   = 2000
	pageBytes = 800_000
	rowBytes  = 200 // about what a record takes beside its attributes
)

// pages ranges over the records behind a cursor, page by page, up to the first
// error; the end of ctx is one. The next page is read while one is in use.
func (s source) pages(ctx context.Context, after string) iter.Seq2[[]row, error] {
	type page struct {
		rows []row
		more bool
		err  error
	}
	return func(yield func([]row, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pages := make(chan page)
		go func() {
			limit := firstPage
			for p := (page{more: true}); p.more && p.err == nil; limit = nextLimit(p.rows, limit) {
				p.rows, after, p.more, p.err = s.list(ctx, after, limit)
				select {
				case pages <- p:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case p := <-pages:
				if !yield(p.rows, p.err) || !p.more || p.err != nil {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// nextLimit is how long the page after rows should be.
func nextLimit(rows []row, limit int) int {
	if len(rows) == 0 {
		return limit
	}
	bytes := 0
	for _, r := range rows {
		bytes += rowBytes + len(r.attributes)
	}
	return min(max(pageBytes*len(rows)/bytes, minPage), maxPage)
}
