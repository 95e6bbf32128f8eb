// Package boltstore keeps events in a bbolt file, for a server that needs no
// other program. They outlive the process.
//
// The bucket events holds a bucket for each workspace, and that two more: by_id
// has the JSON of every event by id, by_position the id of every event by
// event.Position.String. bbolt sorts keys by bytes, which is the order of lists.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record/boltrecord"
)

// The buckets of a workspace.
const (
	byID       = "by_id"
	byPosition = "by_position"
)

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	workspaces *boltrecord.Workspaces
}

// New makes a Store in db, which other stores may share. The caller closes db.
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
		return positions.Put([]byte(e.Position().String()), []byte(e.ID))
	})
	return stored, created, err
}

// List implements event.Store.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (page event.Page, err error) {
	var after string
	if q.After != nil {
		after = q.After.String()
	}
	err = s.workspaces.View(ctx, "list events", workspace, func(b *bbolt.Bucket) (err error) {
		page.Events, page.More, err = boltrecord.Page[event.Event](inOrder(b, after, q.Ascending), q.Limit)
		return err
	})
	return page, err
}

// inOrder ranges over the positions beyond after and the events there, from
// the bucket of a workspace.
func inOrder(b *bbolt.Bucket, after string, ascending bool) iter.Seq2[[]byte, []byte] {
	events, positions := b.Bucket([]byte(byID)), b.Bucket([]byte(byPosition))
	return func(yield func(position, value []byte) bool) {
		for position, id := range boltrecord.Scan(positions, after, ascending) {
			if !yield(position, events.Get(id)) {
				return
			}
		}
	}
}
