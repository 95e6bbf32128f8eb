package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// TombstoneAge is how long the tombstone of a deleted entity is kept.
const TombstoneAge = 30 * 24 * time.Hour

// Change is the latest change of an entity: the entity itself or, after its deletion, a
// tombstone with ID, Type, CreatedAt and DeletedAt. If a walk's filter does not select the
// entity, the Change has only ID, Type, UpdatedAt, Deleted, Reason and ErasedAt.
type Change struct {
	Entity
	Deleted   bool        `json:"deleted"`
	DeletedAt record.Time `json:"deleted_at"`
	Reason    string      `json:"reason,omitzero"` // record.Filtered if a filter does not select the entity; otherwise ""

	// ErasedAt is the stamp of the latest erasure, even if the entity was created again
	// afterwards; zero if the entity was never erased. Events of the entity created up to ErasedAt
	// have been or will be erased, and clients must drop their copies.
	ErasedAt record.Time `json:"erased_at,omitzero"`
}

// SyncPosition returns c's stamp and id, by which lists of changes are sorted.
func (c Change) SyncPosition() record.Position {
	if c.Deleted && c.Reason == "" {
		return record.Position{At: c.DeletedAt, ID: c.ID}
	}
	return record.Position{At: c.UpdatedAt, ID: c.ID}
}

// ExpiresAt returns when c expires. The result is meaningful only for a tombstone.
func (c Change) ExpiresAt() time.Time { return c.DeletedAt.Time().Add(TombstoneAge) }

// Erased reports whether events of the entity have been or will be erased.
func (c Change) Erased() bool { return c.ErasedAt != record.Time{} }

// AppendJSON appends c as JSON. It fails if a member that it appends is invalid.
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("id", c.ID)
	w.String("type", c.Type)
	switch {
	case c.Reason != "":
		w.Time("updated_at", c.UpdatedAt)
		w.True("deleted")
		w.String("reason", c.Reason)
	case c.Deleted:
		w.Time("created_at", c.CreatedAt)
		w.Time("deleted_at", c.DeletedAt)
		w.True("deleted")
		if c.Erased() {
			w.True("erased")
		}
	default:
		w.Attributes("attributes", c.Attributes)
		w.Time("created_at", c.CreatedAt)
		w.Time("updated_at", c.UpdatedAt)
	}
	if c.Erased() {
		w.Time("erased_at", c.ErasedAt)
	}
	return w.End()
}

func (c Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// ChangeQuery requests a page of a workspace's changes, with only the latest change of each entity.
type ChangeQuery struct {
	record.SyncQuery
	Type           string // empty for all types; otherwise, entities of other types are returned as deleted, and IncludeDeleted must be set
	IncludeDeleted bool   // include tombstones and ErasedAt
}

// ListChanges returns the changes that q selects, without expired tombstones. A page may have
// fewer than q.Limit changes, or none, even if more follow.
func ListChanges(ctx context.Context, s Store, workspace string, q ChangeQuery, now time.Time) (record.Page[Change], error) {
	page, err := s.Changes(ctx, workspace, q.SyncQuery)
	page = record.Filter(page, func(c Change) bool {
		return !c.Deleted || q.IncludeDeleted && now.Before(c.ExpiresAt())
	})
	for i, c := range page.Records {
		if !q.IncludeDeleted {
			page.Records[i].ErasedAt = record.Time{}
		}
		if q.Type != "" && c.Type != q.Type && !c.Deleted {
			gone := Entity{ID: c.ID, Type: c.Type, UpdatedAt: c.UpdatedAt}
			page.Records[i] = Change{Entity: gone, Deleted: true, Reason: record.Filtered, ErasedAt: c.ErasedAt}
		}
	}
	return page, err
}
