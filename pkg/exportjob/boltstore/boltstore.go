// Package boltstore keeps export jobs in a bbolt file, for a server that needs
// no other program. They outlive the process.
//
// The bucket export_jobs holds a bucket for each workspace, and that two more:
// by_id has every job (exportjob.Marshal) by id, by_position the id of every job
// by exportjob.Position.String, which is the order of lists.
package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"sluice/pkg/exportjob"
	"sluice/pkg/record/boltrecord"
)

const (
	top        = "export_jobs"
	byID       = "by_id"
	byPosition = "by_position"
)

// Store is an exportjob.Store and exportjob.Backlog. It is safe for concurrent use.
type Store struct {
	db         *bbolt.DB
	workspaces *boltrecord.Workspaces
}

// New makes a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("exportjob boltstore: a database is required")
	}
	workspaces, err := boltrecord.Open(db, top)
	if err != nil {
		return nil, fmt.Errorf("exportjob boltstore: %w", err)
	}
	return &Store{db: db, workspaces: workspaces}, nil
}

// Create implements exportjob.Store.
func (s *Store) Create(ctx context.Context, j exportjob.Job) (stored exportjob.Job, created bool, err error) {
	err = s.workspaces.Update(ctx, "create export job", j.Workspace, func(b *bbolt.Bucket) error {
		jobs, err := b.CreateBucketIfNotExists([]byte(byID))
		if err != nil {
			return err
		}
		positions, err := b.CreateBucketIfNotExists([]byte(byPosition))
		if err != nil {
			return err
		}
		if value := jobs.Get([]byte(j.ID)); value != nil {
			stored, err = exportjob.Unmarshal(value)
			created = false
			return err
		}
		stored, created = j, true
		if err := positions.Put([]byte(j.Position().String()), []byte(j.ID)); err != nil {
			return err
		}
		return put(jobs, j)
	})
	return stored, created, err
}

func put(jobs *bbolt.Bucket, j exportjob.Job) error {
	value, err := exportjob.Marshal(j)
	if err != nil {
		return err
	}
	return jobs.Put([]byte(j.ID), value)
}

// Get implements exportjob.Store.
func (s *Store) Get(ctx context.Context, workspace, id string) (j exportjob.Job, err error) {
	found := false
	err = s.workspaces.View(ctx, "get export job", workspace, func(b *bbolt.Bucket) error {
		value := b.Bucket([]byte(byID)).Get([]byte(id))
		if value == nil {
			return nil
		}
		found = true
		j, err = exportjob.Unmarshal(value)
		return err
	})
	if err == nil && !found {
		err = exportjob.NotFoundError(id)
	}
	return j, err
}

// List implements exportjob.Store.
func (s *Store) List(ctx context.Context, workspace string, q exportjob.Query) (page exportjob.Page, err error) {
	before := ""
	if q.Before != nil {
		before = q.Before.String()
	}
	err = s.workspaces.View(ctx, "list export jobs", workspace, func(b *bbolt.Bucket) error {
		jobs := b.Bucket([]byte(byID))
		for position, id := range boltrecord.Scan(b.Bucket([]byte(byPosition)), "", before, false) {
			if string(position) == before {
				continue
			}
			if page.More = len(page.Jobs) == q.Limit; page.More {
				return nil
			}
			j, err := exportjob.Unmarshal(jobs.Get(id))
			if err != nil {
				return err
			}
			page.Jobs = append(page.Jobs, j)
		}
		return nil
	})
	return page, err
}

// Replace implements exportjob.Store.
func (s *Store) Replace(ctx context.Context, j exportjob.Job) (stored exportjob.Job, replaced bool, err error) {
	err = s.workspaces.Update(ctx, "replace export job", j.Workspace, func(b *bbolt.Bucket) error {
		jobs := b.Bucket([]byte(byID))
		if jobs == nil || jobs.Get([]byte(j.ID)) == nil {
			return exportjob.NotFoundError(j.ID)
		}
		stored, err = exportjob.Unmarshal(jobs.Get([]byte(j.ID)))
		if replaced = err == nil && stored.Revision == j.Revision-1; !replaced {
			return err
		}
		stored = j
		return put(jobs, j)
	})
	return stored, replaced, err
}

// Unfinished implements exportjob.Backlog.
func (s *Store) Unfinished(context.Context) (keys []exportjob.Key, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(top))
		return all.ForEachBucket(func(workspace []byte) error {
			return all.Bucket(workspace).Bucket([]byte(byID)).ForEach(func(_, value []byte) error {
				j, err := exportjob.Unmarshal(bytes.Clone(value))
				if err == nil && !j.Status.Final() {
					keys = append(keys, exportjob.Key{Workspace: j.Workspace, ID: j.ID})
				}
				return err
			})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished export jobs: %w", err)
	}
	return keys, nil
}
