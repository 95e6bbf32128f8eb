package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Time is a time in a record or a query, in UTC with millisecond precision. For a field that
// is a pointer, write new(client.TimeOf(t)).
type Time = record.Time

// TimeOf returns t as the service stores it.
func TimeOf(t time.Time) Time { return record.TimeOf(t) }

// EntityChangeQuery selects entities in order of their latest change, oldest first. To read
// all pages, repeat it with the NextCursor of each page as Cursor, and change nothing else.
// All pages have the same SyncedUntil. Use it as UpdatedSince in the next sync.
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
func (c *Client) ListEntityChanges(ctx context.Context, q EntityChangeQuery) (Page[entity.Change], error) {
	return getPage[entity.Change](ctx, c, route{"list-entity", http.MethodGet, classExport}, "/entity", q.values(), q.Limit)
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
func (c *Client) ListEventChanges(ctx context.Context, q EventChangeQuery) (Page[event.Event], error) {
	p, err := getPage[event.Change](ctx, c, route{"list-event", http.MethodGet, classExport}, "/event", q.values(), q.Limit)
	events := Page[event.Event]{NextCursor: p.NextCursor, SyncedUntil: p.SyncedUntil}
	for _, e := range p.Data {
		if e.Reason == "" {
			events.Data = append(events.Data, e.Event)
		}
	}
	return events, err
}
