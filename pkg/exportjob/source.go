package exportjob

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Entities is the part of entity.Store that an Exporter needs.
type Entities interface {
	List(ctx context.Context, workspace string, q entity.Query) (record.Page[entity.Entity], error)
	Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error)
}

// Events is the part of event.Store that an Exporter needs.
type Events interface {
	List(ctx context.Context, workspace string, q event.Query) (record.Page[event.Event], error)
	Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error)
}

// source reads records in the order of the file: entities by id, and events from oldest to newest
// by occurred_at, then by id.
type source struct {
	list  func(ctx context.Context, after string) (page, error) // returns the page after a cursor, or the first page if the cursor is ""
	count func(ctx context.Context) (int64, error)              // counts the records of the job
}

// pageLength is the maximum number of records on a page. A page with large records is shorter
// (record.MaxPageBytes).
const pageLength = 2000

type page struct {
	rows []row  // records that belong to the job
	last string // cursor of the last record read, even if that record is not in rows
	more bool
}

type row struct {
	cursor string // position in the source
	record interface {
		AppendJSON(b []byte) ([]byte, error)
	}
	attributes record.Attributes
}

// look moves p.last to r, and adds r to the page if it belongs to the job.
func (p *page) look(r row, belongs bool) {
	p.last = r.cursor
	if belongs {
		p.rows = append(p.rows, r)
	}
}

func (r *run) source() source {
	if r.Resource == record.Entity {
		return r.entitySource()
	}
	return r.eventSource()
}

func (r *run) entitySource() source {
	q := entity.Query{Type: r.Filters.Type, Limit: pageLength}
	workspace, until := r.Job.Workspace, r.Job.Until
	return source{
		list: func(ctx context.Context, after string) (page, error) {
			q := q
			q.AfterID = after
			found, err := r.entities.List(ctx, workspace, q)
			p := page{last: after, more: found.More}
			for _, e := range found.Records {
				p.look(row{cursor: e.ID, record: e, attributes: e.Attributes}, e.CreatedAt.Compare(until) <= 0)
			}
			p.last = cmp.Or(found.Last.ID, p.last) // found.Last may be a deleted entity
			return p, err
		},
		count: func(ctx context.Context) (int64, error) { return r.entities.Count(ctx, workspace, q, until) },
	}
}

// eventSource leaves out events that had expired when the job was created.
func (r *run) eventSource() source {
	q := event.Query{EntityID: event.OptionalID(r.Filters.EntityID), From: r.Filters.From, To: r.Filters.To, Ascending: true, Limit: pageLength}
	workspace, until, name := r.Job.Workspace, r.Job.Until, r.Filters.Name
	s := source{
		list: func(ctx context.Context, after string) (p page, err error) {
			q := q
			if after != "" {
				position, err := record.ParsePosition(after)
				if err != nil {
					return page{}, err
				}
				q.After = &position
			}
			found, err := r.events.List(ctx, workspace, q)
			p = page{last: after, more: found.More}
			for _, e := range found.Records {
				belongs := e.CreatedAt.Compare(until) <= 0 && !e.Expired(until) && (name == "" || name == e.Name)
				p.look(row{cursor: e.Position().String(), record: e, attributes: e.Attributes}, belongs)
			}
			return p, err
		},
		count: func(ctx context.Context) (int64, error) { return r.events.Count(ctx, workspace, q, until) },
	}
	if name != "" {
		s.count = s.countRows
	}
	return s
}

// countRows counts records by reading them, which costs no more than a count by the store.
func (s source) countRows(ctx context.Context) (n int64, err error) {
	err = s.eachPage(ctx, "", func(p page) error {
		n += int64(len(p.rows))
		return nil
	})
	return n, err
}

// eachPage calls visit for each page after a cursor, and meanwhile reads the next page. It
// ends at the first error, or when ctx is done.
func (s source) eachPage(ctx context.Context, after string, visit func(page) error) error {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan page)
	g.Go(func() error {
		defer close(pages)
		for p := (page{last: after, more: true}); p.more; {
			var err error
			if p, err = s.list(ctx, p.last); err != nil {
				return err
			}
			select {
			case pages <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	g.Go(func() error {
		for p := range pages {
			if err := visit(p); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
