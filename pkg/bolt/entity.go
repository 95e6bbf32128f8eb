package bolt

import (
	"context"
	"iter"
	"reflect"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// byType is the name of the bucket of the index by type.
const entitiesByType = "entities_by_type"

// Entities is an entity.Store. It is safe for concurrent use.
//
// It keeps entities in a bbolt file, so that a local server needs no
// database.
//
// The file has the following buckets. Each of them contains one bucket per workspace.
//
//   - The bucket entities maps each id to the entity in JSON. bbolt sorts keys by bytes, and
//     lists have the same order.
//   - entities_by_type contains, per workspace, a bucket for each type. Both the keys and
//     the values in the bucket of a type are the ids of the entities of this type.
//   - entities_by_updated_at has an entry for every entity and every tombstone. It maps
//     the text of Change.SyncPosition to the id.
//   - entity_tombstones maps the text of a tombstone's SyncPosition to the tombstone in
//     JSON.
type Entities struct {
	workspaces *workspaces
}

// NewEntities returns a Store in db, which other stores may share. The caller closes db.
func NewEntities(db *bbolt.DB) (*Entities, error) {
	workspaces, err := openWorkspaces(db, "entities")
	if err != nil {
		return nil, err
	}
	return &Entities{workspaces: workspaces}, nil
}

// Create implements entity.Store. Concurrent calls share an fsync.
func (s *Entities) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	err = s.workspaces.update(ctx, "create entity", workspace, func(entities *bbolt.Bucket) (err error) {
		e, err := afterDeletion(entities, workspace, e)
		if err != nil {
			return err
		}
		stored, created, err = createRecord(entities, e.ID, e)
		if err != nil || !created {
			return err
		}
		if err := indexChange(entities, workspace, entity.Change{Entity: e}); err != nil {
			return err
		}
		return putIndex(entities.Tx(), e.ID, e.ID, entitiesByType, workspace, e.Type)
	})
	return stored, created, err
}

// Replace implements entity.Store.
func (s *Entities) Replace(ctx context.Context, workspace string, old, e entity.Entity) (replaced bool, err error) {
	return s.change(ctx, "replace entity", workspace, old, func(entities *bbolt.Bucket) error {
		if err := indexChange(entities, workspace, entity.Change{Entity: e}); err != nil {
			return err
		}
		if e.Type != old.Type {
			if err := bucketAt(entities.Tx(), entitiesByType, workspace, old.Type).Delete([]byte(old.ID)); err != nil {
				return err
			}
			if err := putIndex(entities.Tx(), e.ID, e.ID, entitiesByType, workspace, e.Type); err != nil {
				return err
			}
		}
		return putRecord(entities, old.ID, e)
	})
}

// Delete implements entity.Store.
func (s *Entities) Delete(ctx context.Context, workspace string, old entity.Entity, at record.Time) (deleted bool, err error) {
	return s.change(ctx, "delete entity", workspace, old, func(entities *bbolt.Bucket) error {
		if err := removeEntity(entities, workspace, old); err != nil {
			return err
		}
		return bury(entities, workspace, entity.TombstoneOf(old, at))
	})
}

// removeEntity removes e from the bucket of its workspace and from the index by type.
func removeEntity(entities *bbolt.Bucket, workspace string, e entity.Entity) error {
	if err := bucketAt(entities.Tx(), entitiesByType, workspace, e.Type).Delete([]byte(e.ID)); err != nil {
		return err
	}
	return entities.Delete([]byte(e.ID))
}

// change removes an entity from the index of changes and then calls write. It does so only if
// the stored entity still equals old. It reports whether it did both without an error.
func (s *Entities) change(ctx context.Context, op, workspace string, old entity.Entity, write func(entities *bbolt.Bucket) error) (changed bool, err error) {
	err = s.workspaces.update(ctx, op, workspace, func(entities *bbolt.Bucket) error {
		changed = false
		value := entities.Get([]byte(old.ID))
		if value == nil {
			return nil
		}
		// Compare the decoded entities, because an earlier build may have encoded the
		// same entity as different bytes.
		stored, err := decode[entity.Entity](value)
		if err != nil || !reflect.DeepEqual(stored, old) {
			return err
		}
		changed = true
		if err := unindexChange(entities, workspace, entity.Change{Entity: old}); err != nil {
			return err
		}
		return write(entities)
	})
	return changed && err == nil, err
}

// Get implements entity.Store.
func (s *Entities) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	return getRecord[entity.Entity](ctx, s.workspaces, "entity", workspace, id)
}

// List implements entity.Store.
func (s *Entities) List(ctx context.Context, workspace string, q entity.Query) (page record.Page[entity.Entity], err error) {
	err = s.workspaces.view(ctx, "list entities", workspace, func(entities *bbolt.Bucket) (err error) {
		page, err = readPage[entity.Entity](scanEntities(entities, workspace, q), q.Limit)
		return err
	})
	return page, err
}

// Count implements entity.Store.
func (s *Entities) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (n int64, err error) {
	q.AfterID = ""
	err = s.workspaces.view(ctx, "count entities", workspace, func(entities *bbolt.Bucket) (err error) {
		n, err = count(scanEntities(entities, workspace, q), until)
		return err
	})
	return n, err
}

// scanEntities returns an iterator over the entities that q selects. The parameter entities is the
// bucket of the workspace.
func scanEntities(entities *bbolt.Bucket, workspace string, q entity.Query) iter.Seq2[[]byte, []byte] {
	low := ""
	if q.AfterID != "" {
		low = q.AfterID + "\x00" // the first string after q.AfterID in byte order; it is not itself a valid id
	}
	if q.Type == "" {
		return scan(entities, low, "", true)
	}
	ids := bucketAt(entities.Tx(), entitiesByType, workspace, q.Type)
	return lookup(entities, scan(ids, low, "", true))
}
