package event

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// SyncPosition returns the position of e in a list of changes.
func (e Event) SyncPosition() record.Position {
	return record.Position{At: e.CreatedAt, ID: e.ID}
}

// ChangeQuery requests a workspace's events in order of CreatedAt, then id.
type ChangeQuery struct {
	record.SyncQuery
	EntityID OptionalID // only events of this entity; empty for all entities
}

// ListChanges returns the events that q selects and that have not expired by now. It
// reads up to q.Limit events and then drops those that have expired or do not match
// q.EntityID. A page may therefore have fewer than q.Limit events, or none, even if More
// is true.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.Page[Event], error) {
	page, err := s.Changes(ctx, workspace, q.SyncQuery)
	return record.Filter(page, Event.SyncPosition, func(e Event) bool {
		return (q.EntityID == "" || e.EntityID == q.EntityID) && !e.Expired(record.TimeOf(now))
	}), err
}
