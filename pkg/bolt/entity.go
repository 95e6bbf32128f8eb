package bolt

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

const (
	byType      = "by_type"
	byUpdatedAt = "by_updated_at"
	byAttribute = "by_attribute"
)

// Entities is an entity.Store that is safe for concurrent use. Its table "entities" holds the
// latest change of each entity, including tombstones, and these indexes:
//
//   - by_type has a bucket for each type, with the entities of that type by id.
//   - by_updated_at has all records, by the text form of Change.SyncPosition.
//   - by_expiry has the tombstones.
//   - by_attribute has a bucket for each index of attributes, whose name is Declaration.Partition
//     without a Lead. The bucket maps the index's keys to entity ids.
type Entities struct {
	table   *table[entity.Change]
	clock   entity.Clock
	indexes *index.Current
}

// NewEntities fails if db is nil. Other stores may share db, which the caller closes. indexes
// may be nil if there are none. A write adds keys to the indexes that exist when its
// transaction runs.
func NewEntities(db *bbolt.DB, clock entity.Clock, indexes *index.Current) (*Entities, error) {
	if indexes == nil {
		indexes = new(index.Current)
	}
	s := &Entities{clock: clock, indexes: indexes}
	var err error
	s.table, err = openTable(db, "entities", schema[entity.Change]{
		func(c entity.Change) string { return c.ID }, changeFields, s.entries, func(c entity.Change) bool { return !c.Deleted },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func changeFields(f *fields, c *entity.Change) {
	f.flag(&c.Deleted)
	var m record.Room
	f.members(c.Members(m[:0]))
}

func (s *Entities) entries(workspace string, c entity.Change) []entry {
	change := entry{c.SyncPosition().String(), []string{byUpdatedAt}}
	if c.Deleted {
		expiry := record.Position{At: record.TimeOf(c.ExpiresAt()), ID: c.ID}
		return []entry{change, {expiry.String(), []string{byExpiry}}}
	}
	entries := []entry{change, {c.ID, []string{byType, c.Type}}}
	for _, d := range s.indexes.Load().Of(workspace, c.Type) {
		if key, _ := d.Key(c.ID, c.Attributes); key != (index.Key{}) && d.Written() {
			entries = append(entries, entry{key.String(), attributePath(d)})
		}
	}
	return entries
}

// Write implements entity.Store. It calls w.Next inside the transaction, so it never loses a race,
// and takes the stamp there, so that writes are committed in the order of their stamps. Each write
// also removes some expired tombstones. A write that has nothing to store begins no transaction
// unless the entity changes meanwhile.
func (s *Entities) Write(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, written bool, err error) {
	op := string(w.Op) + " entity"
	err = s.table.view(ctx, op, workspace, func(changes records[entity.Change]) (err error) {
		latest, _, err = changes.get(w.ID)
		return err
	})
	if err != nil {
		return entity.Change{}, false, err
	}
	if _, ok, err := w.Next(latest, latest.SyncPosition().At); err != nil || !ok { // the stamp has no effect on what is returned
		return latest, false, err
	}
	var was entity.Change
	var rejected error // by w.Next
	err = s.table.update(ctx, op, workspace, func(changes records[entity.Change]) (err error) {
		now := s.clock.Time()
		var exists bool
		if was, exists, err = changes.get(w.ID); err != nil {
			return err
		}
		stamp, err := storeTime(changes.tx, now)
		if err != nil {
			return err
		}
		latest, written, rejected = w.Next(was, was.SyncPosition().At.Next(stamp.Time()))
		if !written {
			latest = was
			return nil
		}
		return errors.Join(noteStamp(changes.tx, latest.SyncPosition().At), changes.put(latest, was, exists), changes.sweep(record.TimeOf(now)))
	})
	if err = cmp.Or(err, rejected); err != nil {
		return entity.Change{}, false, err
	}
	return latest, written, nil
}

func (s *Entities) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	c, err := s.table.get(ctx, "entity", workspace, id)
	if err == nil && c.Deleted {
		err = record.NotFoundError("entity", id)
	}
	return c.Entity, err
}

func (s *Entities) GetEach(ctx context.Context, workspace string, ids []string) (map[string]entity.Change, error) {
	found := make(map[string]entity.Change)
	err := s.table.view(ctx, "get entities", workspace, func(changes records[entity.Change]) error {
		for _, id := range ids {
			c, exists, err := changes.get(id)
			if err != nil {
				return err
			}
			if exists {
				found[id] = c
			}
		}
		return nil
	})
	return found, err
}

func (s *Entities) List(ctx context.Context, workspace string, q entity.Query) (page record.Page[entity.Entity], err error) {
	err = s.table.view(ctx, "list entities", workspace, func(changes records[entity.Change]) error {
		after, err := q.Cursor.ID()
		if err != nil {
			return err
		}
		found, err := s.table.page(scanEntities(changes, q.Type, following(after)), q.Limit, func(c entity.Change) bool { return c.Deleted })
		page.Next = found.Next
		page.Records = slices.Grow(page.Records, len(found.Records))
		for _, c := range found.Records {
			page.Records = append(page.Records, c.Entity)
		}
		return err
	})
	return page, err
}

func (s *Entities) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error) {
	return s.table.count(ctx, "count entities", workspace, "",
		func(changes records[entity.Change], low string) iter.Seq2[[]byte, []byte] {
			return scanEntities(changes, q.Type, low)
		},
		func(c entity.Change) bool { return !c.Deleted && c.CreatedAt.Compare(until) <= 0 })
}

// scanEntities iterates over the entities of type typ in the order of their ids, starting at
// low. If typ is empty, it iterates over all records, including tombstones.
func scanEntities(changes records[entity.Change], typ, low string) iter.Seq2[[]byte, []byte] {
	if typ == "" {
		return scan(changes.index(byKey), low, "", true)
	}
	return changes.lookup(scan(changes.index(byType, typ), low, "", true), true)
}

func (s *Entities) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[entity.Change], err error) {
	err = s.table.view(ctx, "list changes of entities", workspace, func(changes records[entity.Change]) (err error) {
		low, high, err := q.Bounds()
		if err != nil {
			return err
		}
		page, err = s.table.page(changes.lookup(scan(changes.index(byUpdatedAt), low, high, !q.Descending), !q.Descending), q.Limit, nil)
		if err == nil {
			page.Settled, err = newestStamp(changes.tx)
		}
		return err
	})
	return page, err
}
