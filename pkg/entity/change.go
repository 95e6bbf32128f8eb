package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// TombstoneAge is how long the tombstone of a deleted entity is kept.
const TombstoneAge = 30 * 24 * time.Hour

// Change is the latest change of an entity: the entity itself or, after its deletion, a
// tombstone with ID, Type, Revision, CreatedAt and DeletedAt. If a walk's filter does not select
// the entity, the Change has only ID, Type, Revision, UpdatedAt, Deleted, Reason and ErasedAt.
type Change struct {
	Entity
	Deleted   bool
	DeletedAt record.Time
	Reason    string // record.Filtered if a filter does not select the entity; otherwise ""

	// ErasedAt is the time of the latest erasure's job, even if the entity was created again
	// afterwards; zero if the entity was never erased. Events of the entity created up to ErasedAt
	// have been or will be erased, and clients must drop their copies.
	ErasedAt record.Time
}

// Live reports whether the entity exists. A Change without an ID stands for an entity that never
// existed.
func (c Change) Live() bool { return c.ID != "" && !c.Deleted }

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

// Members appends to m the members of the entity, of the tombstone or, if c has a Reason, of what a
// walk says instead. Deleted and Reason must be set before the members are read.
func (c *Change) Members(m []record.Member) []record.Member {
	switch {
	case c.Reason != "":
		m = append(m,
			record.Member{Name: "id", Value: &c.ID},
			record.Member{Name: "type", Value: &c.Type},
			record.Member{Name: "revision", Value: &c.Revision, ByService: true},
			record.Member{Name: "updated_at", Value: &c.UpdatedAt, ByService: true},
			record.Member{Name: "deleted", Value: &c.Deleted, ByService: true},
			record.Member{Name: "reason", Value: &c.Reason, ByService: true},
		)
	case c.Deleted:
		m = append(m,
			record.Member{Name: "id", Value: &c.ID},
			record.Member{Name: "type", Value: &c.Type},
			record.Member{Name: "revision", Value: &c.Revision, ByService: true},
			record.Member{Name: "created_at", Value: &c.CreatedAt, ByService: true},
			record.Member{Name: "deleted_at", Value: &c.DeletedAt, ByService: true},
			record.Member{Name: "deleted", Value: &c.Deleted, ByService: true},
			record.Member{Name: "erased", Value: new(c.Erased()), Omit: true, ByService: true},
		)
	default:
		m = c.Entity.Members(m)
	}
	return append(m, record.Member{Name: "erased_at", Value: &c.ErasedAt, Omit: true, ByService: true})
}

// AppendJSON appends c to b; see [record.AppendJSON].
func (c Change) AppendJSON(b []byte) ([]byte, error) {
	var m record.Room
	return record.AppendJSON(b, c.Members(m[:0]))
}

func (c Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

func (c *Change) UnmarshalJSON(object []byte) error {
	err := record.ReadJSON(object, []record.Member{{Name: "deleted", Value: &c.Deleted}, {Name: "reason", Value: &c.Reason}})
	if err != nil {
		return err
	}
	return record.ReadJSON(object, c.Members(nil))
}

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
			gone := Entity{ID: c.ID, Type: c.Type, Revision: c.Revision, UpdatedAt: c.UpdatedAt}
			page.Records[i] = Change{Entity: gone, Deleted: true, Reason: record.Filtered, ErasedAt: c.ErasedAt}
		}
	}
	return page, err
}
