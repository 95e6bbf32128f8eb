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
	"sluice/pkg/record"
)

// NewEvent is an event to create.
type NewEvent struct {
	ID         string            `json:"id"` // "" for a UUIDv7 of the client
	Name       string            `json:"name"`
	EntityID   string            `json:"entity_id,omitzero"`   // the entity it concerns; "" for none
	OccurredAt *record.Time      `json:"occurred_at,omitzero"` // nil for the time of creation
	Attributes record.Attributes `json:"attributes,omitzero"`  // a JSON object; nil for an empty one
}

// EventQuery selects events in order of OccurredAt, then id. Its zero value
// selects all, newest first.
type EventQuery struct {
	EntityID  string       // only events of this entity; "" for all
	From      *record.Time // only events at this time or later; nil for all
	To        *record.Time // only events before this time; nil for all
	Ascending bool         // oldest first
	Limit     int          // most events of a page, 1 to 200; the service's default if it is 0
	Cursor    string       // where to begin: NextCursor of an earlier page; "" for the first
}

func (q EventQuery) values() url.Values {
	v := values("entity_id", q.EntityID, "cursor", q.Cursor)
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

// ListEvents returns one page of events. Each one costs one record.
func (c *Client) ListEvents(ctx context.Context, q EventQuery) (Page[event.Event], error) {
	return getPage[event.Event](ctx, c, route{"list-event", http.MethodGet, exports}, "/event", q.values(), q.Limit)
}

// Events returns an iterator over all events that q selects, which gets them page by
// page. An error is the last element.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[event.Event, error] {
	return records(q.Cursor, func(cursor string) (Page[event.Event], error) {
		q.Cursor = cursor
		return c.ListEvents(ctx, q)
	})
}

// GetEvent returns one event. If none has the id, errors.Is(err, ErrNotFound).
func (c *Client) GetEvent(ctx context.Context, id string) (event.Event, error) {
	return getOne[event.Event](ctx, c, route{"get-event", http.MethodGet, exports}, "/event/", id)
}

// CreateEvent creates an event. If the service has an event of this id with the same
// content, it returns that and false; with other content,
// errors.Is(err, ErrConflict).
func (c *Client) CreateEvent(ctx context.Context, e NewEvent) (stored event.Event, created bool, err error) {
	e.ID = cmp.Or(e.ID, newID())
	return create[event.Event](ctx, c, route{"create-event", http.MethodPost, imports}, "/create_event", e)
}

// CreateEvents creates up to MaxBatch events of MaxBatchBytes in one import call.
// There is a result for each event, in order, even if there is an error. Of a batch
// in which some events failed for a passing reason, only those are sent again; the
// tries of all count together.
//
// The error says that some events have no final result: their results have it
// too. That the service rejected an event for good is only in its result.
func (c *Client) CreateEvents(ctx context.Context, events []NewEvent) ([]BatchResult[event.Event], error) {
	events = slices.Clone(events)
	for i := range events {
		events[i].ID = cmp.Or(events[i].ID, newID())
	}
	k := call{route: route{"create-events", http.MethodPost, imports}, path: "/create_events"}
	return sendBatch(ctx, c, k, "events", events, func(r api.BatchResult) *event.Event { return r.Event })
}
