package event

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// SyncPosition returns the position of e in a list in order of arrival.
func (e Event) SyncPosition() record.SyncPosition {
	return record.SyncPosition{At: e.CreatedAt, ID: e.ID}
}

// ArrivalQuery requests a workspace's events in order of CreatedAt, then id.
type ArrivalQuery struct {
	record.SyncQuery
	EntityID OptionalID // only events of this entity; empty for all entities
}

// ListArrivals returns the events that q selects and that have not expired by the given
// time. It reads up to q.Limit events from the index of all arrivals and then drops the
// events that have expired or do not match q.EntityID. A page may therefore have fewer
// than q.Limit events, or none, even if More is true.
func ListArrivals(ctx context.Context, s Store, workspace string, q ArrivalQuery, now time.Time) (record.SyncPage[Event], error) {
	page, err := s.Arrivals(ctx, workspace, q.SyncQuery)
	if err != nil {
		return record.SyncPage[Event]{}, err
	}
	return record.NewSyncPage(page.Events, page.More, func(e Event) bool {
		return (q.EntityID == "" || e.EntityID == q.EntityID) && !e.Expired(record.TimeOf(now))
	}), nil
}
