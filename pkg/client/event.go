package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// What one call of CreateEvents can hold.
const (
	MaxBatchEvents = 100
	MaxBatchBytes  = 1 << 20 // of the JSON around the events too
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

// EventResult is the result of one event of a batch.
type EventResult struct {
	Event   event.Event // as it is stored; the zero value if Err is not nil
	Created bool        // false if the service had it already
	Err     error       // an *Error, or nil
}

// CreateEvents creates up to MaxBatchEvents events of MaxBatchBytes in one
// import call. There is a result for each event, in order, also if there is an
// error. Of a batch in which some events failed for a passing reason, only those
// are sent again; the tries of all count together.
//
// The error says that some events have no final result: their results have it
// too. That the service rejected an event for good is only in its result.
func (c *Client) CreateEvents(ctx context.Context, events []NewEvent) ([]EventResult, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = slices.Clone(events)
	results := make([]EventResult, len(events))
	pending := make([]int, len(events)) // indices of events without a final result
	for i := range events {
		pending[i] = i
		events[i].ID = cmp.Or(events[i].ID, newID())
	}
	k := call{route: route{"create-events", http.MethodPost, imports}, path: "/create_events"}
	var err error
	if k.body, err = encodeEvents(events, pending); err != nil {
		return results, err
	}
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		batch, err := readResults(got.body, len(pending))
		if err != nil {
			return cmp.Or(failure, &Error{Err: err, retryable: true})
		}
		pending, failure = takeResults(results, pending, batch, failure)
		k.body, _ = encodeEvents(events, pending) // what could be encoded with others can be without them
		return failure
	})
	if err != nil {
		for _, index := range pending {
			results[index].Err = err
		}
	}
	return results, err
}

// encodeEvents returns the body for the events of some indices.
func encodeEvents(events []NewEvent, indices []int) ([]byte, error) {
	body := struct {
		Events []NewEvent `json:"events"`
	}{make([]NewEvent, len(indices))}
	for i, index := range indices {
		body.Events[i] = events[index]
	}
	return encode(body)
}

// readResults returns the results that a response to n events holds, whether it is
// a problem or not.
func readResults(body []byte, n int) ([]api.BatchResult, error) {
	var batch api.Batch
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, fmt.Errorf("the response cannot be read: %w", err)
	}
	if len(batch.Results) != n {
		return nil, fmt.Errorf("the response has %d results for %d events", len(batch.Results), n)
	}
	for i, r := range batch.Results {
		if r.Index != i || r.Event == nil && r.Problem == nil {
			return nil, fmt.Errorf("result %d of the response is not of an event", i)
		}
	}
	return batch.Results, nil
}

// takeResults notes the final results of the pending events. It returns the
// indices of the others and the error for which they must be sent again, or nil.
func takeResults(results []EventResult, pending []int, got []api.BatchResult, whole *Error) (left []int, failure *Error) {
	for i, index := range pending {
		r := got[i]
		if r.Event != nil {
			results[index] = EventResult{Event: *r.Event, Created: r.Status == http.StatusCreated}
			continue
		}
		e := newError(r.Status, *r.Problem)
		e.Route, e.Tries = "create-events", 1
		if whole != nil {
			e.RequestID, e.RetryAfter = whole.RequestID, whole.RetryAfter
		}
		if results[index].Err = e; e.retryable {
			left, failure = append(left, index), e
		}
	}
	return left, failure
}
