// Package boltstore keeps entities in a bbolt file, for a server that needs no
// other program. They outlive the process.
//
// The bucket entities holds a bucket for each workspace, and that the JSON of
// every entity by id: bbolt sorts keys by bytes, which is the order of lists.
package boltstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/record/boltrecord"
)

// Store is an entity.Store. It is safe for concurrent use.
type Store struct {
	workspaces *boltrecord.Workspaces
}

// New makes a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("entity boltstore: a database is required")
	}
	workspaces, err := boltrecord.Open(db, "entities")
	if err != nil {
		return nil, fmt.Errorf("entity boltstore: %w", err)
	}
	return &Store{workspaces: workspaces}, nil
}

// Create implements entity.Store. Concurrent calls share an fsync.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	err = s.workspaces.Update(ctx, "create entity", workspace, func(entities *bbolt.Bucket) (err error) {
		stored, created, err = boltrecord.Create(entities, e.ID, e)
		return err
	})
	return stored, created, err
}

// Get implements entity.Store.
func (s *Store) Get(ctx context.Context, workspace, id string) (e entity.Entity, err error) {
	found := false
	err = s.workspaces.View(ctx, "get entity", workspace, func(entities *bbolt.Bucket) (err error) {
		if value := entities.Get([]byte(id)); value != nil {
			found = true
			e, err = boltrecord.Decode[entity.Entity](value)
		}
		return err
	})
	if err == nil && !found {
		err = record.NotFoundError("entity", id)
	}
	return e, err
}

// List implements entity.Store.
func (s *Store) List(ctx context.Context, workspace string, q entity.Query) (page entity.Page, err error) {
	err = s.workspaces.View(ctx, "list entities", workspace, func(entities *bbolt.Bucket) (err error) {
		values := boltrecord.Scan(entities, q.AfterID, true)
		page.Entities, page.More, err = boltrecord.Page[entity.Entity](values, q.Limit)
		return err
	})
	return page, err
}
