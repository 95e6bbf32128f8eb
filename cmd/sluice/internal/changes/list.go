package changes

import (
	"context"
	"slices"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// List returns one page of a list of changes, starting at the Checkpoint's Cursor.
type List func(ctx context.Context, at Checkpoint) (Page, error)

type Page struct {
	Lines []byte  // NDJSON to write to the file
	Count int64   // number of changes in Lines
	Read  int64   // number of changes that the service returned
	Next  *string // cursor of the next page; nil on the last page

	// As in client.ChangePage.
	SyncedUntil, Last record.Time
	Sent              time.Time
}

// Entities lists the latest change of each entity that q selects.
func Entities(c *client.Client, q client.EntityChangeQuery) List {
	return func(ctx context.Context, at Checkpoint) (Page, error) {
		q.UpdatedSince, q.Cursor = at.Since, at.Cursor
		p, err := c.ListEntityChanges(ctx, q)
		return newPage(p, err, func(entity.Change) bool { return true })
	}
}

// Events lists the events that q selects, in order of creation.
func Events(c *client.Client, q client.EventChangeQuery) List {
	return func(ctx context.Context, at Checkpoint) (Page, error) {
		q.CreatedSince, q.Cursor = at.Since, at.Cursor
		p, err := c.ListEventChanges(ctx, q)
		return newPage(p, err, func(event.Event) bool { return true })
	}
}

// Erasures lists the changes to entities that have ever been erased. It goes back to
// Checkpoint.Since, but no further than entity.TombstoneAge before the walk began. It requests all
// changes, up to limit per page, and drops the others. A walk over events must read this list last.
func Erasures(c *client.Client, limit int) List {
	return func(ctx context.Context, at Checkpoint) (Page, error) {
		since, began := at.Since, at.Began.Own
		if at.Began.Service != nil {
			began = *at.Began.Service
		}
		if kept := record.TimeOf(began.Time().Add(-entity.TombstoneAge)); since.Compare(kept) < 0 {
			since = kept
		}
		p, err := c.ListEntityChanges(ctx, client.EntityChangeQuery{UpdatedSince: since, IncludeDeleted: true, Limit: limit, Cursor: at.Cursor})
		return newPage(p, err, entity.Change.Erased)
	}
}

// newPage keeps only the changes for which keep returns true.
func newPage[R interface{ AppendJSON([]byte) ([]byte, error) }](p client.ChangePage[R], err error, keep func(R) bool) (Page, error) {
	if err != nil {
		return Page{}, err
	}
	page := Page{Read: int64(len(p.Data)), Next: p.NextCursor, SyncedUntil: p.SyncedUntil, Last: p.Last, Sent: p.Sent}
	kept := slices.DeleteFunc(p.Data, func(r R) bool { return !keep(r) })
	page.Count = int64(len(kept))
	for _, r := range kept {
		if page.Lines, err = r.AppendJSON(page.Lines); err != nil {
			return Page{}, err
		}
		page.Lines = append(page.Lines, '\n')
	}
	return page, nil
}
