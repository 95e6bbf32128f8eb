package bolt

import (
	"context"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// The names of the top-level buckets. Each contains one bucket per workspace.
const (
	entitiesBucket      = "entities"
	entitiesByType      = "entities_by_type"
	entitiesByUpdatedAt = "entities_by_updated_at"
	entitiesByExpiresAt = "entities_by_expires_at"
)

// Entities is an entity.Store in a bbolt file, so that a local server needs no database. It
// is safe for concurrent use.
//
// Each of the following buckets contains one bucket per workspace.
//
//   - entities maps each id to the latest change in JSON: an entity or a tombstone. bbolt
//     sorts keys by bytes, and lists have the same order.
//   - entities_by_type contains, per workspace, a bucket for each type, with the ids of the
//     entities of this type. Tombstones are not in it.
//   - entities_by_updated_at maps the text of Change.SyncPosition to the id.
//   - entities_by_expires_at has an entry for each tombstone. The key is the text of a
//     record.Position with the time of expiry and the id, and the value is the id.
type Entities struct {
	workspaces *workspaces
	clock      entity.Clock
}

// NewEntities returns a Store in db, which other stores may share. The caller closes db.
func NewEntities(db *bbolt.DB, clock entity.Clock) (*Entities, error) {
	workspaces, err := openWorkspaces(db, entitiesBucket)
	if err != nil {
		return nil, err
	}
	return &Entities{workspaces: workspaces, clock: clock}, nil
}

// Write implements entity.Store. The stamp is taken inside the transaction, so that writes
// are committed in the order of their stamps. Each write also drops some expired tombstones.
func (s *Entities) Write(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, written bool, err error) {
	var was entity.Change
	err = s.workspaces.update(ctx, string(w.Kind)+" entity", workspace, func(entities *bbolt.Bucket) (err error) {
		now := s.clock.Time()
		if was, err = latestChange(entities, w.Entity.ID); err != nil {
			return err
		}
		if latest, written = w.Next(was, now); !written {
			latest = was
			return nil
		}
		if err := removeChange(entities, workspace, was); err != nil {
			return err
		}
		if err := putRecord(entities, latest.ID, latest); err != nil {
			return err
		}
		for _, x := range entriesOf(workspace, latest) {
			if err := putIndex(entities.Tx(), x.key, latest.ID, x.bucket...); err != nil {
				return err
			}
		}
		return sweepTombstones(entities, workspace, now)
	})
	if err != nil {
		return entity.Change{}, false, err
	}
	if written {
		s.clock.Check(ctx, workspace, was, latest)
	}
	return latest, written, nil
}

// latestChange returns the latest change of an entity, or the zero Change.
func latestChange(entities *bbolt.Bucket, id string) (c entity.Change, err error) {
	if value := entities.Get([]byte(id)); value != nil {
		c, err = decode[entity.Change](value)
	}
	return c, err
}

// entityEntry is the place of a change in an index.
type entityEntry struct {
	bucket []string // path of the bucket
	key    string
}

func entriesOf(workspace string, c entity.Change) []entityEntry {
	if c.ID == "" {
		return nil
	}
	entries := []entityEntry{{[]string{entitiesByUpdatedAt, workspace}, c.SyncPosition().String()}}
	if !c.Deleted {
		return append(entries, entityEntry{[]string{entitiesByType, workspace, c.Type}, c.ID})
	}
	expiry := record.Position{At: record.TimeOf(c.ExpiresAt()), ID: c.ID}
	return append(entries, entityEntry{[]string{entitiesByExpiresAt, workspace}, expiry.String()})
}

// removeChange removes a change and its index entries, if there are any.
func removeChange(entities *bbolt.Bucket, workspace string, c entity.Change) error {
	for _, x := range entriesOf(workspace, c) {
		if err := bucketAt(entities.Tx(), x.bucket...).Delete([]byte(x.key)); err != nil {
			return err
		}
	}
	return entities.Delete([]byte(c.ID))
}

// sweepTombstones removes some of the tombstones that had expired by now.
func sweepTombstones(entities *bbolt.Bucket, workspace string, now time.Time) error {
	for _, id := range expired(bucketAt(entities.Tx(), entitiesByExpiresAt, workspace), record.TimeOf(now)) {
		c, err := latestChange(entities, id)
		if err != nil {
			return err
		}
		if err := removeChange(entities, workspace, c); err != nil {
			return err
		}
	}
	return nil
}

// Get implements entity.Store.
func (s *Entities) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	found, err := s.GetEach(ctx, workspace, []string{id})
	e, exists := found[id]
	if err == nil && !exists {
		err = record.NotFoundError("entity", id)
	}
	return e, err
}

// GetEach implements entity.Store.
func (s *Entities) GetEach(ctx context.Context, workspace string, ids []string) (map[string]entity.Entity, error) {
	found := make(map[string]entity.Entity)
	err := s.workspaces.view(ctx, "get entities", workspace, func(entities *bbolt.Bucket) error {
		for _, id := range ids {
			c, err := latestChange(entities, id)
			if err != nil {
				return err
			}
			if c.ID != "" && !c.Deleted {
				found[id] = c.Entity
			}
		}
		return nil
	})
	return found, err
}

// List implements entity.Store.
func (s *Entities) List(ctx context.Context, workspace string, q entity.Query) (page record.Page[entity.Entity], err error) {
	err = s.workspaces.view(ctx, "list entities", workspace, func(entities *bbolt.Bucket) error {
		changes, err := readPage(scanEntities(entities, workspace, q), q.Limit, func(c entity.Change) bool { return c.Deleted })
		page.More, page.Last = changes.More, changes.Last
		for _, c := range changes.Records {
			page.Records = append(page.Records, c.Entity)
		}
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

// scanEntities returns the entities that q selects by id, and tombstones if q has no type.
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

// Changes implements entity.Store.
func (s *Entities) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[entity.Change], err error) {
	err = s.workspaces.view(ctx, "list changes of entities", workspace, func(entities *bbolt.Bucket) (err error) {
		low, high := q.Bounds()
		ids := scan(bucketAt(entities.Tx(), entitiesByUpdatedAt, workspace), low, high, !q.Descending)
		page, err = readPage(lookup(entities, ids), q.Limit, func(entity.Change) bool { return false })
		return err
	})
	return page, err
}
