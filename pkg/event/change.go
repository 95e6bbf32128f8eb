package event

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// SyncPosition returns e's position in a list sorted by time of creation and then by id.
func (e Event) SyncPosition() record.Position {
	return record.Position{At: e.CreatedAt, ID: e.ID}
}

// Change is an event in a walk. If the walk's filter does not select the event, the Change has
// only ID, CreatedAt and Reason.
type Change struct {
	Event
	Reason string `json:"reason,omitzero"` // record.Filtered if the filter does not select the event; otherwise ""
}

// AppendJSON appends the event or, if c has a Reason, only id, created_at, "deleted":true and
// reason. It fails if a member that it appends is invalid.
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	if c.Reason == "" {
		return c.Event.AppendJSON(b)
	}
	w := record.NewObjectWriter(b)
	w.String("id", c.ID)
	w.Time("created_at", c.CreatedAt)
	w.True("deleted")
	w.String("reason", c.Reason)
	return w.End()
}

// ChangeQuery requests a page of a workspace's events, sorted by CreatedAt and then by id.
type ChangeQuery struct {
	record.SyncQuery
	EntityID OptionalID // empty for all entities; otherwise, events of other entities are returned as deleted
}

// ListChanges returns the events that q selects and that have not expired. A page may have
// fewer than q.Limit events, or none, even if more follow.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.Page[Change], error) {
	found, err := s.Changes(ctx, workspace, q.SyncQuery)
	found = record.Filter(found, func(e Event) bool { return !e.Expired(record.TimeOf(now)) })
	page := record.Page[Change]{Next: found.Next}
	for _, e := range found.Records {
		c := Change{Event: e}
		if q.EntityID != "" && e.EntityID != q.EntityID {
			c = Change{Event: Event{ID: e.ID, CreatedAt: e.CreatedAt}, Reason: record.Filtered}
		}
		page.Records = append(page.Records, c)
	}
	return page, err
}
