package exportjob

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
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

// reader reads records in the order of the file: entities by id, and events from oldest to newest
// by occurred_at, then by id.
type reader struct {
	list  func(ctx context.Context, cursor record.Cursor) (page, error)
	count func(ctx context.Context) (int64, error) // counts the records of the job
}

// pageLength is the maximum number of records on a page. A page with large records is shorter
// (record.MaxPageBytes).
const pageLength = 2000

type page struct {
	rows []row         // records that belong to the job
	next record.Cursor // "" after the last page
}

type row struct {
	record interface {
		AppendJSON(b []byte) ([]byte, error)
	}
	attributes record.Attributes
}

func (r *run) reader() reader {
	if r.details.Resource == record.Entity {
		return r.entityReader()
	}
	return r.eventReader()
}

func (r *run) entityReader() reader {
	q := entity.Query{Type: r.details.Filters.Type, Limit: pageLength}
	workspace, until := r.job.Job.Workspace, r.job.Job.Until
	return reader{
		list: func(ctx context.Context, cursor record.Cursor) (page, error) {
			q := q
			q.Cursor = cursor
			found, err := r.exporter.entities.List(ctx, workspace, q)
			p := page{next: found.Next}
			for _, e := range found.Records {
				if e.CreatedAt.Compare(until) <= 0 {
					p.rows = append(p.rows, row{record: e, attributes: e.Attributes})
				}
			}
			return p, err
		},
		count: func(ctx context.Context) (int64, error) { return r.exporter.entities.Count(ctx, workspace, q, until) },
	}
}

// nameQuery returns q for the events with a name, if an index serves it now; otherwise q, and the
// caller has to skip the others. The positions of a list by name are those of a list of all events,
// so the index may become ready, or be removed, between two pages.
func (r *run) nameQuery(ctx context.Context, q event.Query, name string) event.Query {
	if name == "" || q.EntityID != "" {
		return q
	}
	_ = r.exporter.Indexes.Refresh(ctx) // At fails if it is needed
	set, err := r.exporter.Indexes.At(time.Now())
	if err != nil {
		return q
	}
	if d, ok := set.EventNames(r.job.Job.Workspace); ok && d.State == index.Ready {
		q.Name = name
	}
	return q
}

// eventReader leaves out events that expire before they are read.
func (r *run) eventReader() reader {
	filters := r.details.Filters
	q := event.Query{EntityID: filters.EntityID, From: filters.From, To: filters.To, Ascending: true, Limit: pageLength}
	workspace, until, name := r.job.Job.Workspace, r.job.Job.Until, filters.Name
	s := reader{
		list: func(ctx context.Context, cursor record.Cursor) (page, error) {
			q := r.nameQuery(ctx, q, name)
			q.Cursor = cursor
			found, err := r.exporter.events.List(ctx, workspace, q)
			p := page{next: found.Next}
			for _, e := range found.Records {
				if e.CreatedAt.Compare(until) <= 0 && !e.Expired(until) && (name == "" || name == e.Name) {
					p.rows = append(p.rows, row{record: e, attributes: e.Attributes})
				}
			}
			return p, err
		},
	}
	s.count = func(ctx context.Context) (int64, error) {
		q := r.nameQuery(ctx, q, name)
		if name != q.Name {
			return s.countRows(ctx)
		}
		return r.exporter.events.Count(ctx, workspace, q, until)
	}
	return s
}

// countRows counts records by reading them, which costs no more than a count by the store.
func (s reader) countRows(ctx context.Context) (n int64, err error) {
	err = s.eachPage(ctx, "", func(p page) error {
		n += int64(len(p.rows))
		return nil
	})
	return n, err
}

// eachPage calls visit for each page from a cursor on, and meanwhile reads the next page. It
// ends at the first error, or when ctx is done.
func (s reader) eachPage(ctx context.Context, cursor record.Cursor, visit func(page) error) error {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan page)
	g.Go(func() error {
		defer close(pages)
		for {
			p, err := s.list(ctx, cursor)
			if err != nil {
				return err
			}
			select {
			case pages <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
			if cursor = p.next; cursor == "" {
				return nil
			}
		}
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
