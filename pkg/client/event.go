package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"sluice/pkg/api"
	"sluice/pkg/event"
)

// EventQuery selects events in order of OccurredAt, then id. Its zero value selects all of
// them, newest first.
type EventQuery struct {
	EntityID  string // empty for all entities
	Name      string // empty for all names; needs an index of events by name, and no EntityID
	From      *Time  // only events at this time or later; nil for no bound
	To        *Time  // only events before this time; nil for no bound
	Ascending bool   // oldest first
	Limit     int    // per page, 1 to 200; 0 to let the pacing decide
	Cursor    string // NextCursor of the previous page; empty for the first page
}

func (q EventQuery) values() url.Values {
	v := values("entity_id", q.EntityID, "name", q.Name, "cursor", q.Cursor)
	if q.From != nil {
		v.Set("from", q.From.String())
	}
	if q.To != nil {
		v.Set("to", q.To.String())
	}
	if q.Ascending {
		v.Set("order", "asc")
	}
	return v
}

// ListEvents returns one page. Each event on it counts as one record toward the rate limit.
func (c *Client) ListEvents(ctx context.Context, q EventQuery) (Page[event.Event], error) {
	return getPage[event.Event](ctx, c, route{"list-event", http.MethodGet, classExport}, "/event", q.values(), q.Limit)
}

// Events iterates over the events of all pages. It ends after the first error, which it yields
// with a zero event.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[event.Event, error] {
	return records(q.Cursor, func(cursor string) (Page[event.Event], error) {
		q.Cursor = cursor
		return c.ListEvents(ctx, q)
	})
}

// GetEvent returns an event, which counts as one record toward the rate limit. The error matches
// [ErrNotFound] if there is no event with the id.
func (c *Client) GetEvent(ctx context.Context, id string) (event.Event, error) {
	return getOne[event.Event](ctx, c, route{"get-event", http.MethodGet, classExport}, "/event/", id)
}

// CreateEvent creates an event and returns it as stored. If d has no ID, the client generates
// a UUIDv7. If an event with the same id and content exists, it is returned, and created is
// false. The error matches [ErrConflict] if the id exists with different content.
func (c *Client) CreateEvent(ctx context.Context, d event.Draft) (stored event.Event, created bool, err error) {
	d.ID = cmp.Or(d.ID, newID())
	return create[event.Event](ctx, c, route{"create-event", http.MethodPost, classImport}, "/create_event", d)
}

// CreateEvents creates up to MaxBatch events, of up to MaxBatchBytes in total, with one import
// request. It returns one result per event, in order, even if there is an error. Events that
// fail with a retryable error are sent again. All requests count toward Config.MaxTries.
//
// If the service rejects an event for good, the error is only in the event's result. If some
// events get no final result, CreateEvents returns an error, which is also in their results.
func (c *Client) CreateEvents(ctx context.Context, events []event.Draft) ([]BatchResult[event.Event], error) {
	events = slices.Clone(events)
	for i := range events {
		events[i].ID = cmp.Or(events[i].ID, newID())
	}
	k := call{route: route{"create-events", http.MethodPost, classImport}, path: "/create_events"}
	b := batch[event.Draft, event.Event]{
		member: "events", records: events,
		stored:      func(r api.BatchResult) *event.Event { return r.Event },
		conditional: func(event.Draft) bool { return false },
	}
	return b.send(ctx, c, k)
}
