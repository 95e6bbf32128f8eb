package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// TombstoneAge is how long the tombstone of a deleted entity is kept.
const TombstoneAge = 30 * 24 * time.Hour

// Change is the latest change of an entity: the entity as it is since then, or the
// tombstone of one that was deleted. A tombstone has ID, Type, CreatedAt and
// DeletedAt. A copy of the events must drop those that an erased tombstone names.
type Change struct {
	Entity
	Deleted   bool        `json:"deleted"`
	DeletedAt record.Time `json:"deleted_at"`
	Erased    bool        `json:"erased,omitempty"`   // the events of the entity are erased too, or about to be
	ErasedAt  record.Time `json:"erased_at,omitzero"` // those created at this time or before; zero unless Erased
}

// TombstoneOf returns the tombstone of e.
func TombstoneOf(e Entity, deletedAt record.Time) Change {
	return Change{Entity: Entity{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt}, Deleted: true, DeletedAt: deletedAt}
}

// ErasedTombstone returns the tombstone of an entity whose events are erased too, in
// place of c: its entity, or its earlier tombstone. If it never existed, c has only an
// ID. The tombstone is stamped with now, but later than c.
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

// SyncPosition returns the place of c in a list of changes.
func (c Change) SyncPosition() record.SyncPosition {
	if c.Deleted {
		return record.SyncPosition{At: c.DeletedAt, ID: c.ID}
	}
	return record.SyncPosition{At: c.UpdatedAt, ID: c.ID}
}

// ExpiresAt returns when a tombstone expires.
func (c Change) ExpiresAt() time.Time { return c.DeletedAt.Time().Add(TombstoneAge) }

// AppendJSON appends the JSON of the entity, or of the tombstone, to b. It fails like
// Entity.AppendJSON.
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

// ChangeQuery asks for the latest changes of a workspace's entities.
type ChangeQuery struct {
	record.SyncQuery
	Type           string // only entities of this type; "" for all
	IncludeDeleted bool   // tombstones too
}

// ListChanges returns the changes that q asks for, without tombstones that have
// expired by now. The page has fewer than q.Limit changes if some of those that were
// read are not of q.Type or are tombstones that are not asked for, none in the
// extreme: there is one index of all changes.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.SyncPage[Change], error) {
	changes, more, err := s.Changes(ctx, workspace, q.SyncQuery)
	if err != nil {
		return record.SyncPage[Change]{}, err
	}
	return record.NewSyncPage(changes, more, func(c Change) bool {
		return (q.Type == "" || c.Type == q.Type) &&
			(!c.Deleted || q.IncludeDeleted && now.Before(c.ExpiresAt()))
	}), nil
}
