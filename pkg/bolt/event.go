package bolt

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

const (
	byPosition  = "by_position"
	byEntity    = "by_entity"
	byCreatedAt = "by_created_at"
)

// Events is an event.Store. It is safe for concurrent use. Its table is "events", with these
// indexes:
//
//   - by_position has all events, by the text of Event.Position.
//   - by_entity has a bucket for each entity, with its events by the same keys.
//   - by_created_at has all events, by the text of Event.SyncPosition.
//   - by_expiry has the events that expire.
type Events struct {
	table *table[eventDocument]
	now   func() time.Time
}

// NewEvents returns the events in db, which other stores may share. The caller closes db.
func NewEvents(db *bbolt.DB, now func() time.Time) (*Events, error) {
	t, err := openTable(db, "events", func(d eventDocument) string { return d.ID }, eventEntries)
	if err != nil {
		return nil, err
	}
	return &Events{table: t, now: now}, nil
}

// eventDocument is the JSON form in which the store keeps an event.
type eventDocument struct {
	event.Event
	ExpiresAt record.Time `json:"expires_at,omitzero"`
}

// event returns the event in d.
func (d eventDocument) event() event.Event {
	d.Event.ExpiresAt = d.ExpiresAt
	return d.Event
}

func eventEntries(d eventDocument) []entry {
	position := d.Position().String()
	entries := []entry{{position, []string{byPosition}}, {d.SyncPosition().String(), []string{byCreatedAt}}}
	if d.EntityID != "" {
		entries = append(entries, entry{position, []string{byEntity, string(d.EntityID)}})
	}
	if (d.ExpiresAt != record.Time{}) {
		entries = append(entries, entry{record.Position{At: d.ExpiresAt, ID: d.ID}.String(), []string{byExpiry}})
	}
	return entries
}

// eventPage returns a page of events, like readPage.
func eventPage(values iter.Seq2[[]byte, []byte], limit int) (record.Page[event.Event], error) {
	documents, err := readPage[eventDocument](values, limit, nil)
	page := record.Page[event.Event]{More: documents.More}
	for _, d := range documents.Records {
		page.Records = append(page.Records, d.event())
	}
	return page, err
}

// Create implements event.Store. Concurrent calls share an fsync. The time of creation is
// taken inside the transaction, so that events are committed in the order of their creation.
// Each call also removes some expired events.
func (s *Events) Create(ctx context.Context, workspace string, d event.Draft) (stored event.Event, created bool, err error) {
	err = s.table.update(ctx, "create event", workspace, func(events records[eventDocument]) error {
		e := d.At(s.now())
		if err := events.sweep(e.CreatedAt); err != nil {
			return err
		}
		old, exists, err := events.get(e.ID)
		if stored, created = old.event(), false; err != nil || exists && !stored.Expired(e.CreatedAt) {
			return err
		}
		if exists {
			err = events.remove(old)
		}
		stored, created = e, true
		return errors.Join(err, events.put(eventDocument{e, e.ExpiresAt}))
	})
	return stored, created, err
}

// Get implements event.Store.
func (s *Events) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	d, err := s.table.get(ctx, "event", workspace, id)
	return d.event(), err
}

// List implements event.Store.
func (s *Events) List(ctx context.Context, workspace string, q event.Query) (page record.Page[event.Event], err error) {
	err = s.table.view(ctx, "list events", workspace, func(events records[eventDocument]) (err error) {
		page, err = eventPage(scanEvents(events, q), q.Limit)
		return err
	})
	return page, err
}

// Changes implements event.Store.
func (s *Events) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[event.Event], err error) {
	err = s.table.view(ctx, "list changes of events", workspace, func(events records[eventDocument]) (err error) {
		low, high := q.Bounds()
		page, err = eventPage(events.lookup(scan(events.index(byCreatedAt), low, high, !q.Descending)), q.Limit)
		return err
	})
	return page, err
}

// Count implements event.Store.
func (s *Events) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.After, q.Ascending = nil, true
	low, high := q.Bounds()
	return s.table.count(ctx, "count events", workspace, low, until, func(events records[eventDocument], low string) iter.Seq2[[]byte, []byte] {
		return events.lookup(scan(eventIndex(events, q), low, high, true))
	})
}

// scanEvents iterates over the events that q selects.
func scanEvents(events records[eventDocument], q event.Query) iter.Seq2[[]byte, []byte] {
	low, high := q.Bounds()
	return events.lookup(scan(eventIndex(events, q), low, high, q.Ascending))
}

// eventIndex returns the index that serves q.
func eventIndex(events records[eventDocument], q event.Query) *bbolt.Bucket {
	if q.EntityID != "" {
		return events.index(byEntity, string(q.EntityID))
	}
	return events.index(byPosition)
}

// Erase implements event.Store with one transaction.
func (s *Events) Erase(ctx context.Context, workspace string, q event.Erasure) (erased event.Erased, err error) {
	err = s.table.update(ctx, "erase events", workspace, func(events records[eventDocument]) error {
		of := event.Query{EntityID: event.OptionalID(q.EntityID), After: q.After, Ascending: true}
		page, err := readPage[eventDocument](scanEvents(events, of), q.Limit, nil)
		if err != nil {
			return err
		}
		erased = event.Erased{More: page.More}
		for _, d := range page.Records {
			last := d.Position()
			erased.Last = &last
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

// removeEmpty removes the bucket of an entity's events if it is empty. Its name is the id of
// the entity, which must not remain after an erasure.
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
