package event

import (
	"context"

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
	Reason string // record.Filtered if the filter does not select the event; otherwise ""
}

// Members appends to m the members of the event or, if c has a Reason, of what a walk says instead.
func (c *Change) Members(m []record.Member) []record.Member {
	if c.Reason == "" {
		return c.Event.Members(m)
	}
	return append(m,
		record.Member{Name: "id", Value: &c.ID},
		record.Member{Name: "created_at", Value: &c.CreatedAt, ByService: true},
		record.Member{Name: "deleted", Value: new(true), ByService: true},
		record.Member{Name: "reason", Value: &c.Reason, ByService: true},
	)
}

// AppendJSON appends c to b; see [record.AppendJSON].
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	var m record.Room
	return record.AppendJSON(b, c.Members(m[:0]))
}

func (c Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

func (c *Change) UnmarshalJSON(object []byte) error {
	if err := record.ReadJSON(object, []record.Member{{Name: "reason", Value: &c.Reason}}); err != nil {
		return err
	}
	return record.ReadJSON(object, c.Members(nil))
}

// ChangeQuery requests a page of a workspace's events, sorted by CreatedAt and then by id.
type ChangeQuery struct {
	record.SyncQuery
	EntityID string // empty for all entities; otherwise, events of other entities are returned as deleted
}

// ListChanges returns the events that q selects. A page may have fewer than q.Limit events, or
// none, even if more follow.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery) (record.Page[Change], error) {
	found, err := s.Changes(ctx, workspace, q.SyncQuery)
	page := record.Page[Change]{Next: found.Next, Settled: found.Settled}
	for _, e := range found.Records {
		c := Change{Event: e}
		if q.EntityID != "" && e.EntityID != q.EntityID {
			c = Change{Event: Event{ID: e.ID, CreatedAt: e.CreatedAt}, Reason: record.Filtered}
		}
		page.Records = append(page.Records, c)
	}
	return page, err
}
