package client

import (
	"context"
	"net/http"
	"net/url"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// ChangeQuery selects entities in order of their latest change, oldest first. It
// begins a walk: the further pages have the cursor of the page before and the same
// query otherwise. When the last page is read, the SyncedUntil of its pages is the
// UpdatedSince of the next walk.
type ChangeQuery struct {
	UpdatedSince   record.Time // only changes at this time or later
	IncludeDeleted bool        // tombstones too, of the last 30 days
	Type           string      // only entities of this type; "" for all
	Limit          int         // most changes of a page, 1 to 200; the service's default if it is 0
	Cursor         string      // where to begin: NextCursor of an earlier page; "" for the first
}

func (q ChangeQuery) values() url.Values {
	v := values("type", q.Type, "cursor", q.Cursor)
	v.Set("updated_since", q.UpdatedSince.String())
	if q.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	return v
}

// ListChanges returns one page of changes of entities. Each one costs one record.
func (c *Client) ListChanges(ctx context.Context, q ChangeQuery) (Page[entity.Change], error) {
	return getPage[entity.Change](ctx, c, route{"list-entity", http.MethodGet, exports}, "/entity", q.values(), q.Limit)
}

// ArrivalQuery selects events in order of their creation, oldest first. It begins a
// walk, like a ChangeQuery.
type ArrivalQuery struct {
	CreatedSince record.Time // only events that were created at this time or later
	EntityID     string      // only events of this entity; "" for all
	Limit        int         // most events of a page, 1 to 200; the service's default if it is 0
	Cursor       string      // where to begin: NextCursor of an earlier page; "" for the first
}

func (q ArrivalQuery) values() url.Values {
	v := values("entity_id", q.EntityID, "cursor", q.Cursor)
	v.Set("created_since", q.CreatedSince.String())
	return v
}

// ListArrivals returns one page of events in order of creation. Each one costs one record.
func (c *Client) ListArrivals(ctx context.Context, q ArrivalQuery) (Page[event.Event], error) {
	return getPage[event.Event](ctx, c, route{"list-event", http.MethodGet, exports}, "/event", q.values(), q.Limit)
}
