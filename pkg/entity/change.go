package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// TombstoneAge is the time for which the tombstone of a deleted entity is kept.
const TombstoneAge = 30 * 24 * time.Hour

// Change is the latest change of an entity. It contains the entity as it is now or, if
// the entity was deleted, its tombstone. A tombstone has ID, Type, CreatedAt and
// DeletedAt. If Erased is set, the events of the entity that were created at or before
// ErasedAt are or will be erased. A client must then delete its copies of these events.
type Change struct {
	Entity
	Deleted   bool        `json:"deleted"`
	DeletedAt record.Time `json:"deleted_at"`
	Erased    bool        `json:"erased,omitempty"`   // whether the events of the entity are or will be erased
	ErasedAt  record.Time `json:"erased_at,omitzero"` // the events created at or before this time are or will be erased; zero if Erased is false
}

// TombstoneOf returns the tombstone of an entity deleted at deletedAt.
func TombstoneOf(e Entity, deletedAt record.Time) Change {
	return Change{Entity: Entity{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt}, Deleted: true, DeletedAt: deletedAt}
}

// ErasedTombstone returns the tombstone that replaces c when the entity and its events
// are erased. c is the entity or its earlier tombstone. If the entity never existed, c
// has only an ID. The time of the new tombstone is now or one millisecond after the time
// of c, whichever is later.
func (c Change) ErasedTombstone(now time.Time) Change {
	e := c.Entity
	at := c.SyncPosition().At.Next(now)
	if e.Type == "" {
		e.Type, e.CreatedAt = DefaultType, at
	}
	t := TombstoneOf(e, at)
	t.Erased, t.ErasedAt = true, at
	return t
}

// SyncPosition returns the position of c in a list of changes.
func (c Change) SyncPosition() record.Position {
	if c.Deleted {
		return record.Position{At: c.DeletedAt, ID: c.ID}
	}
	return record.Position{At: c.UpdatedAt, ID: c.ID}
}

// ExpiresAt returns the time at which a tombstone expires.
func (c Change) ExpiresAt() time.Time { return c.DeletedAt.Time().Add(TombstoneAge) }

// AppendJSON appends the JSON of the entity or of the tombstone to b. It returns the same
// errors as Entity.AppendJSON.
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	if !c.Deleted {
		return c.Entity.AppendJSON(b)
	}
	w := record.NewObjectWriter(b)
	w.String("id", c.ID)
	w.String("type", c.Type)
	w.Time("created_at", c.CreatedAt)
	w.Time("deleted_at", c.DeletedAt)
	w.True("deleted")
	if c.Erased {
		w.True("erased")
		w.Time("erased_at", c.ErasedAt)
	}
	return w.End()
}

// MarshalJSON implements json.Marshaler with AppendJSON.
func (c Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// ChangeQuery requests the latest changes of a workspace's entities.
type ChangeQuery struct {
	record.SyncQuery
	Type           string // only entities of this type; empty for all types
	IncludeDeleted bool   // whether to include tombstones
}

// ListChanges returns the changes that q selects, except tombstones that have expired by
// the given time. It reads up to q.Limit changes from the index of all changes and then
// applies the filters of q. A page may therefore have fewer than q.Limit changes, or
// none, even if More is true.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.Page[Change], error) {
	page, err := s.Changes(ctx, workspace, q.SyncQuery)
	return record.Filter(page, Change.SyncPosition, func(c Change) bool {
		return (q.Type == "" || c.Type == q.Type) &&
			(!c.Deleted || q.IncludeDeleted && now.Before(c.ExpiresAt()))
	}), err
}
