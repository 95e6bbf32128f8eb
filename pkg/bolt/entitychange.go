package bolt

import (
	"context"
	"iter"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// The names of the buckets of changes. Each bucket contains one bucket per workspace. The
// keys in the bucket of a workspace are strings of record.Position.
const (
	entitiesByUpdatedAt = "entities_by_updated_at"
	tombstones          = "entity_tombstones"
)

// Changes implements entity.Store.
func (s *Entities) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[entity.Change], err error) {
	err = s.workspaces.view(ctx, "list changes of entities", workspace, func(entities *bbolt.Bucket) (err error) {
		low, high := q.Bounds()
		ids := scan(bucketAt(entities.Tx(), entitiesByUpdatedAt, workspace), low, high, !q.Descending)
		page, err = readPage[entity.Change](lookupEntities(entities, workspace, ids), q.Limit)
		return err
	})
	return page, err
}

// lookupEntities returns an iterator over the positions in ids, with the tombstone or the entity
// at each position. It skips positions whose entity does not exist, because an earlier
// build may have deleted the entity without updating the index.
func lookupEntities(entities *bbolt.Bucket, workspace string, ids iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	deleted := bucketAt(entities.Tx(), tombstones, workspace)
	return func(yield func(position, value []byte) bool) {
		for position, id := range ids {
			var value []byte
			if deleted != nil {
				value = deleted.Get(position)
			}
			if value == nil {
				value = entities.Get(id)
			}
			if value != nil && !yield(position, value) {
				return
			}
		}
	}
}

// indexChange puts the latest change of an entity into the index.
func indexChange(entities *bbolt.Bucket, workspace string, c entity.Change) error {
	return putIndex(entities.Tx(), c.SyncPosition().String(), c.ID, entitiesByUpdatedAt, workspace)
}

// unindexChange removes the change of an entity from the index.
func unindexChange(entities *bbolt.Bucket, workspace string, c entity.Change) error {
	return bucketAt(entities.Tx(), entitiesByUpdatedAt, workspace).Delete([]byte(c.SyncPosition().String()))
}

// afterDeletion returns e unchanged if every deletion of an entity with the id of e was
// before e.UpdatedAt. Otherwise it returns e with new times, which are after the latest
// deletion (see Entity.After).
func afterDeletion(entities *bbolt.Bucket, workspace string, e entity.Entity) (entity.Entity, error) {
	since := e.UpdatedAt.String()
	for position, value := range scan(bucketAt(entities.Tx(), tombstones, workspace), since, "", true) {
		if !strings.HasSuffix(string(position), "#"+e.ID) {
			continue
		}
		deleted, err := decode[entity.Change](value)
		if err != nil {
			return entity.Entity{}, err
		}
		e = e.After(deleted.DeletedAt)
	}
	return e, nil
}

// Erase implements entity.Store.
func (s *Entities) Erase(ctx context.Context, workspace, id string, now time.Time) (tombstone entity.Change, err error) {
	err = s.workspaces.update(ctx, "erase entity", workspace, func(entities *bbolt.Bucket) error {
		latest, err := exhume(entities, workspace, id)
		if err != nil {
			return err
		}
		if value := entities.Get([]byte(id)); value != nil {
			e, err := decode[entity.Entity](value)
			if err != nil {
				return err
			}
			latest = entity.Change{Entity: e}
			if err := unindexChange(entities, workspace, latest); err != nil {
				return err
			}
			if err := removeEntity(entities, workspace, e); err != nil {
				return err
			}
		}
		tombstone = latest.ErasedTombstone(now)
		return bury(entities, workspace, tombstone)
	})
	return tombstone, err
}

// exhume removes all tombstones of an entity and returns the latest tombstone. If the
// entity has no tombstone, exhume returns a Change with only the id.
func exhume(entities *bbolt.Bucket, workspace, id string) (entity.Change, error) {
	latest := entity.Change{Entity: entity.Entity{ID: id}}
	b := bucketAt(entities.Tx(), tombstones, workspace)
	var positions []string
	for position := range scan(b, "", "", true) {
		if strings.HasSuffix(string(position), "#"+id) {
			positions = append(positions, string(position))
		}
	}
	for _, position := range positions {
		var err error
		if latest, err = decode[entity.Change](b.Get([]byte(position))); err != nil {
			return latest, err
		}
		if err := unbury(entities, workspace, b, []byte(position)); err != nil {
			return latest, err
		}
	}
	return latest, nil
}

// bury stores the tombstone c and its index entry. It also removes some tombstones that
// had expired by c.DeletedAt.
func bury(entities *bbolt.Bucket, workspace string, c entity.Change) error {
	if err := indexChange(entities, workspace, c); err != nil {
		return err
	}
	b, err := createBucket(entities.Tx(), tombstones, workspace)
	if err != nil {
		return err
	}
	if err := putRecord(b, c.SyncPosition().String(), c); err != nil {
		return err
	}
	end := record.TimeOf(c.DeletedAt.Time().Add(-entity.TombstoneAge))
	for position := range expired(b, end) {
		if err := unbury(entities, workspace, b, []byte(position)); err != nil {
			return err
		}
	}
	return nil
}

// unbury removes the tombstone at a position in b, and its index entry.
func unbury(entities *bbolt.Bucket, workspace string, b *bbolt.Bucket, position []byte) error {
	if err := b.Delete(position); err != nil {
		return err
	}
	return bucketAt(entities.Tx(), entitiesByUpdatedAt, workspace).Delete(position)
}
