// Package boltstore keeps entities in a bbolt file, for a server that needs no
// other program.
//
// The bucket entities has a bucket for each workspace, with the JSON of every
// entity by id: bbolt sorts keys by bytes, which is the order of lists. The
// bucket entities_by_type has a bucket for each workspace, and in it one for each
// type, whose keys and values are the ids of its entities.
package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"

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
	seed       maphash.Seed
	turns      [64]sync.Mutex // of updates, by a hash of the entity
}

// New returns a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("entity boltstore: a database is required")
	}
	workspaces, err := boltrecord.Open(db, "entities")
	if err != nil {
		return nil, fmt.Errorf("entity boltstore: %w", err)
	}
	return &Store{workspaces: workspaces, seed: maphash.MakeSeed()}, nil
}

// Create implements entity.Store. Concurrent calls share an fsync.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	err = s.workspaces.Update(ctx, "create entity", workspace, func(entities *bbolt.Bucket) (err error) {
		stored, created, err = boltrecord.Create(entities, e.ID, e)
		if err != nil || !created {
			return err
		}
		return boltrecord.PutNested(entities, e.ID, e.ID, byType, workspace, e.Type)
	})
	return stored, created, err
}

// Update implements entity.Store. bbolt runs one writing transaction at a time, so
// change is called outside it: the transaction only compares and puts. Updates of
// one entity take turns, because of concurrent ones all but the first would have
// called change without effect.
func (s *Store) Update(ctx context.Context, workspace, id string, change func(entity.Entity) (entity.Entity, error)) (entity.Entity, error) {
	turn := &s.turns[maphash.String(s.seed, workspace+"#"+id)%uint64(len(s.turns))]
	turn.Lock()
	defer turn.Unlock()
	for {
		stored, replaced, err := s.tryUpdate(ctx, workspace, id, change)
		if err != nil || replaced {
			return stored, err
		}
	}
}

// tryUpdate is Update, but does nothing if another write comes between.
func (s *Store) tryUpdate(ctx context.Context, workspace, id string, change func(entity.Entity) (entity.Entity, error)) (e entity.Entity, replaced bool, err error) {
	var was []byte
	err = s.workspaces.View(ctx, "update entity", workspace, func(entities *bbolt.Bucket) error {
		was = bytes.Clone(entities.Get([]byte(id)))
		return nil
	})
	switch {
	case err != nil:
		return entity.Entity{}, false, err
	case was == nil:
		return entity.Entity{}, false, record.NotFoundError("entity", id)
	}
	if e, err = boltrecord.Decode[entity.Entity](was); err != nil {
		return entity.Entity{}, false, err
	}
	if e, err = change(e); err != nil {
		return entity.Entity{}, false, err
	}
	value, err := boltrecord.Encode(e)
	if err != nil || bytes.Equal(value, was) {
		return e, true, err
	}
	err = s.workspaces.Update(ctx, "update entity", workspace, func(entities *bbolt.Bucket) error {
		if replaced = bytes.Equal(entities.Get([]byte(id)), was); !replaced {
			return nil
		}
		return entities.Put([]byte(id), value)
	})
	return e, replaced, err
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
		if err := boltrecord.Nested(entities, byType, workspace, e.Type).Delete([]byte(id)); err != nil {
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
	ids := boltrecord.Nested(entities, byType, workspace, q.Type)
	return boltrecord.Lookup(entities, boltrecord.Scan(ids, low, "", true))
}
