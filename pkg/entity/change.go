package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// TombstoneAge is the time for which the tombstone of a deleted entity is kept.
const TombstoneAge = 30 * 24 * time.Hour

// Change is the latest change of an entity: the entity as it is now or, if it was deleted,
// its tombstone, which has ID, Type, CreatedAt and DeletedAt.
type Change struct {
	Entity
	Deleted   bool        `json:"deleted"`
	DeletedAt record.Time `json:"deleted_at"`

	// ErasedAt is the stamp of the latest erasure, even if the entity was created again
	// later; zero without one. The entity's events that were created by then are or
	// will be erased, and clients must drop their copies.
	ErasedAt record.Time `json:"erased_at,omitzero"`
}

// SyncPosition returns the position of c in a list of changes. Its time is the stamp of c.
func (c Change) SyncPosition() record.Position {
	if c.Deleted {
		return record.Position{At: c.DeletedAt, ID: c.ID}
	}
	return record.Position{At: c.UpdatedAt, ID: c.ID}
}

// ExpiresAt returns the time at which a tombstone expires.
func (c Change) ExpiresAt() time.Time { return c.DeletedAt.Time().Add(TombstoneAge) }

// Erased reports whether the events of the entity are or will be erased.
func (c Change) Erased() bool { return c.ErasedAt != record.Time{} }

// AppendJSON appends the JSON of the entity or of the tombstone to b. It returns the same
// errors as Entity.AppendJSON.
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("id", c.ID)
	w.String("type", c.Type)
	if c.Deleted {
		w.Time("created_at", c.CreatedAt)
		w.Time("deleted_at", c.DeletedAt)
		w.True("deleted")
	} else {
		w.Attributes("attributes", c.Attributes)
		w.Time("created_at", c.CreatedAt)
		w.Time("updated_at", c.UpdatedAt)
	}
	if c.Deleted && c.Erased() {
		w.True("erased")
	}
	if c.Erased() {
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
	IncludeDeleted bool   // whether to include tombstones, and ErasedAt
}

// ListChanges returns the changes that q selects, except tombstones that have expired by
// now. It reads up to q.Limit changes from the index of all changes and then applies the
// filters of q. A page may therefore have fewer than q.Limit changes, or none, even if More
// is true.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.Page[Change], error) {
	page, err := s.Changes(ctx, workspace, q.SyncQuery)
	page = record.Filter(page, Change.SyncPosition, func(c Change) bool {
		return (q.Type == "" || c.Type == q.Type) &&
			(!c.Deleted || q.IncludeDeleted && now.Before(c.ExpiresAt()))
	})
	for i := range page.Records {
		if !q.IncludeDeleted {
			page.Records[i].ErasedAt = record.Time{}
		}
	}
	return page, err
}
