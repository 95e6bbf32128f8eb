// Package boltstore keeps entities in a bbolt file, for a server that needs no
// other program.
//
// The bucket entities has a bucket for each workspace, with the JSON of every
// entity by id: bbolt sorts keys by bytes, which is the order of lists. The
// bucket entities_by_type has a bucket for each workspace, and in it one for each
// type, whose keys and values are the ids of its entities.
package boltstore

import (
	"context"
	"iter"
	"reflect"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/record/boltrecord"
)

// byType is the bucket of the index by type.
const byType = "entities_by_type"

// Store is an entity.Store. It is safe for concurrent use.
type Store struct {
	workspaces *boltrecord.Workspaces
}

// New returns a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	workspaces, err := boltrecord.Open(db, "entities")
	if err != nil {
		return nil, err
	}
	return &Store{workspaces: workspaces}, nil
}

// Create implements entity.Store. Concurrent calls share an fsync.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	err = s.workspaces.Update(ctx, "create entity", workspace, func(entities *bbolt.Bucket) (err error) {
		stored, created, err = boltrecord.Create(entities, e.ID, e)
		if err != nil || !created {
			return err
		}
		return boltrecord.Index(entities.Tx(), e.ID, e.ID, byType, workspace, e.Type)
	})
	return stored, created, err
}

// Replace implements entity.Store.
func (s *Store) Replace(ctx context.Context, workspace string, was, e entity.Entity) (replaced bool, err error) {
	err = s.workspaces.Update(ctx, "replace entity", workspace, func(entities *bbolt.Bucket) error {
		replaced = false
		value := entities.Get([]byte(was.ID))
		if value == nil {
			return nil
		}
		// Decoded, because an earlier build may have encoded the same entity differently.
		stored, err := boltrecord.Decode[entity.Entity](value)
		if err != nil || !reflect.DeepEqual(stored, was) {
			return err
		}
		replaced = true
		if e.Type != was.Type {
			if err := boltrecord.Bucket(entities.Tx(), byType, workspace, was.Type).Delete([]byte(was.ID)); err != nil {
				return err
			}
			if err := boltrecord.Index(entities.Tx(), e.ID, e.ID, byType, workspace, e.Type); err != nil {
				return err
			}
		}
		return boltrecord.Put(entities, was.ID, e)
	})
	return replaced && err == nil, err
}

// Delete implements entity.Store.
func (s *Store) Delete(ctx context.Context, workspace, id string) error {
	return s.workspaces.Update(ctx, "delete entity", workspace, func(entities *bbolt.Bucket) error {
		value := entities.Get([]byte(id))
		if value == nil {
			return nil
		}
		e, err := boltrecord.Decode[entity.Entity](value)
		if err != nil {
			return err
		}
		if err := boltrecord.Bucket(entities.Tx(), byType, workspace, e.Type).Delete([]byte(id)); err != nil {
			return err
		}
		return entities.Delete([]byte(id))
	})
}

// Get implements entity.Store.
func (s *Store) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	return boltrecord.Get[entity.Entity](ctx, s.workspaces, "entity", workspace, id)
}

// List implements entity.Store.
func (s *Store) List(ctx context.Context, workspace string, q entity.Query) (page entity.Page, err error) {
	err = s.workspaces.View(ctx, "list entities", workspace, func(entities *bbolt.Bucket) (err error) {
		page.Entities, page.More, err = boltrecord.Page[entity.Entity](scan(entities, workspace, q), q.Limit)
		return err
	})
	return page, err
}

// Count implements entity.Store.
func (s *Store) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (n int64, err error) {
	q.AfterID = ""
	err = s.workspaces.View(ctx, "count entities", workspace, func(entities *bbolt.Bucket) (err error) {
		n, err = boltrecord.Count(scan(entities, workspace, q), until)
		return err
	})
	return n, err
}

// scan ranges over the entities that q selects. entities is the workspace's bucket.
func scan(entities *bbolt.Bucket, workspace string, q entity.Query) iter.Seq2[[]byte, []byte] {
	low := ""
	if q.AfterID != "" {
		low = q.AfterID + "\x00" // the next string, which is not a valid id
	}
	if q.Type == "" {
		return boltrecord.Scan(entities, low, "", true)
	}
	ids := boltrecord.Bucket(entities.Tx(), byType, workspace, q.Type)
	return boltrecord.Lookup(entities, boltrecord.Scan(ids, low, "", true))
}
