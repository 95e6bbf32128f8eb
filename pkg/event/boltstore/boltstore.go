// Package boltstore keeps events in a bbolt file, for a server that needs no
// other program.
//
// The bucket events has a bucket for each workspace, and in it two more: by_id has
// the JSON of every event by id, by_position the id of every event by
// event.Position.String. bbolt sorts keys by bytes, which is the order of lists. The
// bucket events_by_entity has a bucket for each workspace, and in it one for each
// entity id, which is like by_position.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/boltrecord"
)

const (
	// The buckets of a workspace.
	byID       = "by_id"
	byPosition = "by_position"

	// The bucket of the index.
	byEntity = "events_by_entity"
)

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	workspaces *boltrecord.Workspaces
}

// New returns a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("event boltstore: a database is required")
	}
	workspaces, err := boltrecord.Open(db, "events")
	if err != nil {
		return nil, fmt.Errorf("event boltstore: %w", err)
	}
	return &Store{workspaces: workspaces}, nil
}

// Create implements event.Store. Concurrent calls share an fsync.
func (s *Store) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	err = s.workspaces.Update(ctx, "create event", workspace, func(b *bbolt.Bucket) error {
		events, err := b.CreateBucketIfNotExists([]byte(byID))
		if err != nil {
			return err
		}
		positions, err := b.CreateBucketIfNotExists([]byte(byPosition))
		if err != nil {
			return err
		}
		stored, created, err = boltrecord.Create(events, e.ID, e)
		if err != nil || !created {
			return err
		}
		position := e.Position().String()
		if err := positions.Put([]byte(position), []byte(e.ID)); err != nil || e.EntityID == "" {
			return err
		}
		return boltrecord.PutNested(b, position, e.ID, byEntity, workspace, string(e.EntityID))
	})
	return stored, created, err
}

// Get implements event.Store.
func (s *Store) Get(ctx context.Context, workspace, id string) (e event.Event, err error) {
	found := false
	err = s.workspaces.View(ctx, "get event", workspace, func(b *bbolt.Bucket) (err error) {
		if value := b.Bucket([]byte(byID)).Get([]byte(id)); value != nil {
			found = true
			e, err = boltrecord.Decode[event.Event](value)
		}
		return err
	})
	if err == nil && !found {
		err = record.NotFoundError("event", id)
	}
	return e, err
}

// List implements event.Store.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (page event.Page, err error) {
	err = s.workspaces.View(ctx, "list events", workspace, func(b *bbolt.Bucket) (err error) {
		page.Events, page.More, err = boltrecord.Page[event.Event](scan(b, workspace, q), q.Limit)
		return err
	})
	return page, err
}

// Count implements event.Store.
func (s *Store) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (n int64, err error) {
	q.After = nil
	err = s.workspaces.View(ctx, "count events", workspace, func(b *bbolt.Bucket) (err error) {
		n, err = boltrecord.Count(scan(b, workspace, q), until)
		return err
	})
	return n, err
}

// scan ranges over the events that q selects. b is the workspace's bucket.
func scan(b *bbolt.Bucket, workspace string, q event.Query) iter.Seq2[[]byte, []byte] {
	low, high := q.Bounds()
	positions := b.Bucket([]byte(byPosition))
	if q.EntityID != "" {
		positions = boltrecord.Nested(b, byEntity, workspace, string(q.EntityID))
	}
	return boltrecord.Lookup(b.Bucket([]byte(byID)), boltrecord.Scan(positions, low, high, q.Ascending))
}
