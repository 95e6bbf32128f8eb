package event

import (
	"context"

	"sluice/pkg/record"
)

// SyncPosition returns the place of e in a list in order of arrival.
func (e Event) SyncPosition() record.SyncPosition {
	return record.SyncPosition{At: e.CreatedAt, ID: e.ID}
}

// ArrivalQuery asks for a workspace's events in order of CreatedAt, then id.
type ArrivalQuery struct {
	record.SyncQuery
	EntityID OptionalID // only events of this entity; "" for all
}

// ListArrivals returns the events that q asks for. The page has fewer than q.Limit
// events if some of those that were read are not of q.EntityID, none in the extreme:
// there is one index of all arrivals.
func ListArrivals(ctx context.Context, s Store, workspace string, q ArrivalQuery) (record.SyncPage[Event], error) {
	page, err := s.Arrivals(ctx, workspace, q.SyncQuery)
	if err != nil {
		return record.SyncPage[Event]{}, err
	}
	return record.NewSyncPage(page.Events, page.More, func(e Event) bool {
		return q.EntityID == "" || e.EntityID == q.EntityID
	}), nil
}
