package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Time is a time in a record or a query, in UTC with millisecond precision. For a field that
// is a pointer, write new(client.TimeOf(t)).
type Time = record.Time

// TimeOf returns t as the service stores it.
func TimeOf(t time.Time) Time { return record.TimeOf(t) }

// ChangePage is a page of a walk, which is a first page and all pages that follow it.
type ChangePage[T any] struct {
	Data       []T
	NextCursor *string // nil on the last page

	// SyncedUntil is a time before which the pages so far have every change. The next walk may start
	// there, and so may one after an interruption. It never decreases within a walk.
	SyncedUntil Time

	Last Time      // time of the latest change on the page, also of one that Data leaves out; zero if there is none
	Sent time.Time // when the service sent the page, by its own clock and in whole seconds
}

// EntityChangeQuery selects entities in order of their latest change, oldest first. To read
// all pages, repeat it with the NextCursor of each page as Cursor, and change nothing else, or use
// [Client.EntityChanges]. An entity that changes meanwhile may be on several pages.
type EntityChangeQuery struct {
	UpdatedSince   Time   // only changes from this time on
	IncludeDeleted bool   // include entities that were deleted within the last 30 days
	Type           string // empty for all types; otherwise, entities of other types are returned as Deleted with the Reason record.Filtered, and IncludeDeleted must be set
	Limit          int    // per page, 1 to 200; 0 to let the pacing decide
	Cursor         string // NextCursor of the previous page; empty for the first page
}

func (q EntityChangeQuery) values() url.Values {
	v := values("type", q.Type, "cursor", q.Cursor)
	v.Set("updated_since", q.UpdatedSince.String())
	if q.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	return v
}

// ListEntityChanges returns one page. Each change on it counts as one record toward the rate limit.
func (c *Client) ListEntityChanges(ctx context.Context, q EntityChangeQuery) (ChangePage[entity.Change], error) {
	return changePage[entity.Change](ctx, c, route{"list-entity", http.MethodGet, classExport}, "/entity", q.values(), q.Limit)
}

// EntityChanges returns the walk that begins at q.Cursor.
func (c *Client) EntityChanges(q EntityChangeQuery) *Walk[entity.Change] {
	return newWalk(q.UpdatedSince, func(ctx context.Context, cursor string) (ChangePage[entity.Change], error) {
		next := q
		next.Cursor = cmp.Or(cursor, q.Cursor)
		return c.ListEntityChanges(ctx, next)
	})
}

// EventChangeQuery selects events in order of their creation, oldest first. Use it like
// EntityChangeQuery, with SyncedUntil as CreatedSince in the next sync.
type EventChangeQuery struct {
	CreatedSince Time   // only events created from this time on
	EntityID     string // empty for all entities; otherwise, events of other entities are left out, but still count toward the rate limit
	Limit        int    // per page, 1 to 200; 0 to let the pacing decide
	Cursor       string // NextCursor of the previous page; empty for the first page
}

func (q EventChangeQuery) values() url.Values {
	v := values("entity_id", q.EntityID, "cursor", q.Cursor)
	v.Set("created_since", q.CreatedSince.String())
	if q.EntityID != "" {
		v.Set("include_deleted", "true") // required with a filter; events that do not match are returned as deleted
	}
	return v
}

// ListEventChanges returns one page. If q.EntityID is set, the events of other entities are left
// out, but each of them still counts as one record toward the rate limit.
func (c *Client) ListEventChanges(ctx context.Context, q EventChangeQuery) (ChangePage[event.Event], error) {
	p, err := changePage[event.Change](ctx, c, route{"list-event", http.MethodGet, classExport}, "/event", q.values(), q.Limit)
	events := ChangePage[event.Event]{NextCursor: p.NextCursor, SyncedUntil: p.SyncedUntil, Last: p.Last, Sent: p.Sent}
	for _, e := range p.Data {
		if e.Reason == "" {
			events.Data = append(events.Data, e.Event)
		}
	}
	return events, err
}

// EventChanges returns the walk that begins at q.Cursor.
func (c *Client) EventChanges(q EventChangeQuery) *Walk[event.Event] {
	return newWalk(q.CreatedSince, func(ctx context.Context, cursor string) (ChangePage[event.Event], error) {
		next := q
		next.Cursor = cmp.Or(cursor, q.Cursor)
		return c.ListEventChanges(ctx, next)
	})
}

func changePage[T interface{ SyncPosition() record.Position }](ctx context.Context, c *Client, r route, path string, query url.Values, limit int) (page ChangePage[T], err error) {
	k := listCall(r, path, query, limit)
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		var list api.List[T]
		if failure == nil {
			failure = decode(got.body, &required{"data", &list})
		}
		switch {
		case failure != nil:
			return failure
		case list.SyncedUntil == nil:
			return &Error{Detail: "the response has no synced_until"}
		}
		page = ChangePage[T]{Data: list.Data, NextCursor: list.NextCursor, SyncedUntil: *list.SyncedUntil}
		if n := len(list.Data); n > 0 {
			page.Last = list.Data[n-1].SyncPosition().At
		}
		page.Sent, _ = http.ParseTime(got.header.Get("Date")) // zero if a proxy has removed it
		return nil
	})
	return page, err
}

// Walk reads the changes of all pages, one after another. It is not safe for concurrent use.
type Walk[T any] struct {
	page        func(ctx context.Context, cursor string) (ChangePage[T], error)
	syncedUntil Time
	chase       Chase
}

func newWalk[T any](since Time, page func(context.Context, string) (ChangePage[T], error)) *Walk[T] {
	return &Walk[T]{page: page, syncedUntil: since}
}

// SyncedUntil returns a time before which the pages that have been read to their last change have
// every change. Start the next walk there.
func (w *Walk[T]) SyncedUntil() Time { return w.syncedUntil }

// All iterates over the changes of all pages, unless Chase.Over ends the walk sooner. After a stop or
// an error, a new walk from SyncedUntil continues.
func (w *Walk[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range w.Pages(ctx) {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, r := range page.Data {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Pages is like All, but yields whole pages. After a stop or an error, a walk with the same query and
// the NextCursor of the last page as its Cursor continues, as long as there is one.
func (w *Walk[T]) Pages(ctx context.Context) iter.Seq2[ChangePage[T], error] {
	return func(yield func(ChangePage[T], error) bool) {
		for cursor := ""; ; {
			page, err := w.page(ctx, cursor)
			if err == nil && page.NextCursor != nil && *page.NextCursor == cursor {
				err = errSamePage
			}
			if err != nil {
				yield(ChangePage[T]{}, err)
				return
			}
			if !yield(page, nil) {
				return
			}
			if w.syncedUntil = page.SyncedUntil; page.NextCursor == nil || w.chase.Over(page.SyncedUntil, page.Last, page.Sent) {
				return
			}
			cursor = *page.NextCursor
		}
	}
}
