// Package boltstore keeps events in a bbolt file, so that a local server needs no
// database.
//
// The file has the following buckets. Each of them contains one bucket per workspace.
//
//   - The bucket events contains, per workspace, the buckets by_id and by_position. by_id
//     maps each id to the event in JSON. by_position maps event.Position.String to the id.
//     bbolt sorts keys by bytes, and lists have the same order.
//   - events_by_entity contains, per workspace, a bucket for each entity id. This bucket
//     has the same keys and values as by_position, but only for the events of the entity.
//   - events_by_created_at maps the text of record.SyncPosition to the id.
//   - events_by_expires_at has an entry for each event that expires. The key is the text
//     of a record.SyncPosition with the event's time of expiry and id. The value is the id.
package boltstore

import (
	"context"
	"iter"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/boltrecord"
)

// The names of the top-level buckets and of the buckets in a workspace.
const (
	top         = "events"
	byEntity    = "events_by_entity"
	byCreatedAt = "events_by_created_at"
	byExpiresAt = "events_by_expires_at"
	byID        = "by_id"
	byPosition  = "by_position"
)

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	workspaces *boltrecord.Workspaces
}

// New returns a Store in db, which other stores may share. The caller closes db.
func New(db *bbolt.DB) (*Store, error) {
	workspaces, err := boltrecord.Open(db, top, byID)
	if err != nil {
		return nil, err
	}
	err = workspaces.BuildIndex(byCreatedAt, func(events *bbolt.Bucket, workspace string, value []byte) error {
		e, err := boltrecord.Decode[event.Event](value)
		if err != nil {
			return err
		}
		return indexArrival(events, workspace, e)
	})
	return &Store{workspaces: workspaces}, err
}

// document is the JSON form in which the store keeps an event.
type document struct {
	event.Event
	ExpiresAt record.Time `json:"expires_at,omitzero"`
}

// event returns the event in d.
func (d document) event() event.Event {
	d.Event.ExpiresAt = d.ExpiresAt
	return d.Event
}

// page returns a page of events, like boltrecord.Page.
func page(values iter.Seq2[[]byte, []byte], limit int) (events []event.Event, more bool, err error) {
	documents, more, err := boltrecord.Page[document](values, limit)
	for _, d := range documents {
		events = append(events, d.event())
	}
	return events, more, err
}

// Create implements event.Store. Concurrent calls share an fsync.
func (s *Store) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	err = s.workspaces.Update(ctx, "create event", workspace, func(events *bbolt.Bucket) (err error) {
		if err := sweep(events, workspace, e); err != nil {
			return err
		}
		d, isNew, err := boltrecord.Create(events, e.ID, document{e, e.ExpiresAt})
		if stored, created = d.event(), isNew; err != nil || !created {
			return err
		}
		return index(events, workspace, e)
	})
	return stored, created, err
}

// index puts an event into the indexes.
func index(events *bbolt.Bucket, workspace string, e event.Event) error {
	if err := indexArrival(events, workspace, e); err != nil {
		return err
	}
	if (e.ExpiresAt != record.Time{}) {
		if err := boltrecord.Index(events.Tx(), expiry(e), e.ID, byExpiresAt, workspace); err != nil {
			return err
		}
	}
	position := e.Position().String()
	err := boltrecord.Index(events.Tx(), position, e.ID, top, workspace, byPosition)
	if err != nil || e.EntityID == "" {
		return err
	}
	return boltrecord.Index(events.Tx(), position, e.ID, byEntity, workspace, string(e.EntityID))
}

// indexArrival puts an event into the index by creation time.
func indexArrival(events *bbolt.Bucket, workspace string, e event.Event) error {
	return boltrecord.Index(events.Tx(), e.SyncPosition().String(), e.ID, byCreatedAt, workspace)
}

// Get implements event.Store.
func (s *Store) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	d, err := boltrecord.Get[document](ctx, s.workspaces, "event", workspace, id)
	return d.event(), err
}

// List implements event.Store.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (p event.Page, err error) {
	err = s.workspaces.View(ctx, "list events", workspace, func(events *bbolt.Bucket) (err error) {
		p.Events, p.More, err = page(scan(events, workspace, q), q.Limit)
		return err
	})
	return p, err
}

// Arrivals implements event.Store.
func (s *Store) Arrivals(ctx context.Context, workspace string, q record.SyncQuery) (p event.Page, err error) {
	err = s.workspaces.View(ctx, "list arrivals of events", workspace, func(events *bbolt.Bucket) (err error) {
		low, high := q.Bounds()
		ids := boltrecord.Scan(boltrecord.Bucket(events.Tx(), byCreatedAt, workspace), low, high, !q.Descending)
		p.Events, p.More, err = page(boltrecord.Lookup(events, ids), q.Limit)
		return err
	})
	return p, err
}

// Count implements event.Store.
func (s *Store) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (n int64, err error) {
	q.After = nil
	err = s.workspaces.View(ctx, "count events", workspace, func(events *bbolt.Bucket) (err error) {
		n, err = boltrecord.Count(scan(events, workspace, q), until)
		return err
	})
	return n, err
}

// scan returns an iterator over the events that q selects. The parameter events is the
// bucket byID of the workspace.
func scan(events *bbolt.Bucket, workspace string, q event.Query) iter.Seq2[[]byte, []byte] {
	low, high := q.Bounds()
	path := []string{top, workspace, byPosition}
	if q.EntityID != "" {
		path = []string{byEntity, workspace, string(q.EntityID)}
	}
	positions := boltrecord.Bucket(events.Tx(), path...)
	return boltrecord.Lookup(events, boltrecord.Scan(positions, low, high, q.Ascending))
}
