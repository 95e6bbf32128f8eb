package bolt

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

const (
	byEntity    = "by_entity"
	byName      = "by_name"
	byCreatedAt = "by_created_at"
)

// Events is an event.Store that is safe for concurrent use. The keys of its table "events" are
// the text form of Event.Position, so that a long list reads the file sequentially. The table
// has these indexes:
//
//   - by_id has all events.
//   - by_entity has a bucket for each entity, with the keys of its events.
//   - by_name, if the workspace declares it, has a bucket for each name, with the keys of its events.
//   - by_created_at has all events, by the text form of Event.SyncPosition.
//   - by_expiry has the events that expire.
type Events struct {
	table   *table[event.Event]
	now     func() time.Time
	indexes *index.Current
}

// NewEvents fails if db is nil. Other stores may share db, which the caller closes. indexes is as in
// NewEntities.
func NewEvents(db *bbolt.DB, now func() time.Time, indexes *index.Current) (*Events, error) {
	if indexes == nil {
		indexes = new(index.Current)
	}
	s := &Events{now: now, indexes: indexes}
	t, err := openTable(db, "events", schema[event.Event]{
		func(e event.Event) string { return e.Position().String() }, eventFields, s.entries, func(event.Event) bool { return true },
	})
	if err != nil {
		return nil, err
	}
	s.table = t
	return s, nil
}

func eventFields(f *fields, e *event.Event) {
	var m record.Room
	f.members(e.Members(m[:0]))
	f.time(&e.ExpiresAt)
}

func (s *Events) entries(workspace string, e event.Event) []entry {
	entries := []entry{{e.ID, []string{byID}}, {e.SyncPosition().String(), []string{byCreatedAt}}}
	if e.EntityID != "" {
		entries = append(entries, entry{e.Position().String(), []string{byEntity, e.EntityID}})
	}
	if d, ok := s.indexes.Load().EventNames(workspace); ok && d.Written() {
		entries = append(entries, entry{e.Position().String(), []string{byName, e.Name}})
	}
	if (e.ExpiresAt != record.Time{}) {
		entries = append(entries, entry{record.Position{At: e.ExpiresAt, ID: e.ID}.String(), []string{byExpiry}})
	}
	return entries
}

// Create implements event.Store. It takes the stamp inside the transaction, so that events are
// committed in the order of their creation times. Concurrent calls share an fsync. Each call
// also removes some expired events.
func (s *Events) Create(ctx context.Context, workspace string, d event.Draft) (stored event.Event, created bool, err error) {
	err = s.table.update(ctx, "create event", workspace, func(events records[event.Event]) error {
		now := s.now()
		stamp, err := storeTime(events.tx, now)
		if err != nil {
			return err
		}
		if err := events.sweep(record.TimeOf(now)); err != nil {
			return err
		}
		old, exists, err := events.get(d.ID)
		if stored, created = old, false; err != nil || exists && !stored.Expired(record.TimeOf(now)) {
			return err
		}
		if exists {
			err = events.remove(old)
		}
		stored, created = d.At(stamp.Time()), true
		return errors.Join(err, events.put(stored, old, false), noteStamp(events.tx, stamp))
	})
	return stored, created, err
}

func (s *Events) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	e, err := s.table.get(ctx, "event", workspace, id)
	if err == nil && s.expired(e) {
		return event.Event{}, record.NotFoundError("event", id)
	}
	return e, err
}

func (s *Events) expired(e event.Event) bool { return e.Expired(record.TimeOf(s.now())) }

func (s *Events) List(ctx context.Context, workspace string, q event.Query) (page record.Page[event.Event], err error) {
	const op = "list events"
	err = s.table.view(ctx, op, workspace, func(events records[event.Event]) (err error) {
		if d, ok := s.indexes.Load().EventNames(workspace); q.Name != "" && (!ok || d.State != index.Ready) {
			return record.UnavailableError(op, errIndexRemoved)
		}
		entries, err := scanEvents(events, q)
		if err != nil {
			return err
		}
		page, err = s.table.page(entries, q.Limit, s.expired)
		return err
	})
	return page, err
}

func (s *Events) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[event.Event], err error) {
	err = s.table.view(ctx, "list changes of events", workspace, func(events records[event.Event]) (err error) {
		low, high, err := q.Bounds()
		if err != nil {
			return err
		}
		page, err = s.table.page(events.lookup(scan(events.index(byCreatedAt), low, high, !q.Descending), !q.Descending), q.Limit, s.expired)
		if err == nil {
			page.Settled, err = newestStamp(events.tx)
		}
		return err
	})
	return page, err
}

func (s *Events) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.Cursor, q.Ascending = "", true
	low, high, err := q.Bounds()
	if err != nil {
		return 0, err
	}
	return s.table.count(ctx, "count events", workspace, low,
		func(events records[event.Event], low string) iter.Seq2[[]byte, []byte] {
			return scanBetween(events, q, low, high)
		},
		func(e event.Event) bool { return e.CreatedAt.Compare(until) <= 0 && !e.Expired(until) })
}

func scanEvents(events records[event.Event], q event.Query) (iter.Seq2[[]byte, []byte], error) {
	low, high, err := q.Bounds()
	return scanBetween(events, q, low, high), err
}

// scanBetween is like scanEvents, but with low and high in place of q's bounds.
func scanBetween(events records[event.Event], q event.Query, low, high string) iter.Seq2[[]byte, []byte] {
	switch {
	case q.EntityID != "":
		return events.lookup(scan(events.index(byEntity, q.EntityID), low, high, q.Ascending), q.Ascending)
	case q.Name != "":
		return events.lookup(scan(events.index(byName, q.Name), low, high, q.Ascending), q.Ascending)
	}
	return scan(events.index(byKey), low, high, q.Ascending)
}

// Erase implements event.Store. Each call is one transaction.
func (s *Events) Erase(ctx context.Context, workspace string, q event.Erasure) (erased event.Erased, err error) {
	err = s.table.update(ctx, "erase events", workspace, func(events records[event.Event]) error {
		of := event.Query{EntityID: q.EntityID, Cursor: q.Cursor, Ascending: true}
		entries, err := scanEvents(events, of)
		if err != nil {
			return err
		}
		page, err := s.table.page(entries, q.Limit, nil)
		if err != nil {
			return err
		}
		erased = event.Erased{Next: page.Next}
		for _, d := range page.Records {
			if d.CreatedAt.Compare(q.Until) > 0 {
				continue
			}
			if err := events.remove(d); err != nil {
				return err
			}
			erased.Events++
		}
		return removeEmpty(events.index(byEntity), q.EntityID)
	})
	if err != nil {
		return event.Erased{}, err
	}
	return erased, nil
}

// removeEmpty removes an entity's bucket of events if it is empty. The bucket's name is the
// entity's id, which must not remain after an erasure.
func removeEmpty(entities *bbolt.Bucket, entityID string) error {
	b := nested(entities, entityID)
	if b == nil {
		return nil
	}
	if first, _ := b.Cursor().First(); first != nil {
		return nil
	}
	return entities.DeleteBucket([]byte(entityID))
}
