package bolt

import (
	"context"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The names of the top-level buckets and of the buckets in a workspace.
const (
	eventsBucket      = "events"
	eventsByEntity    = "events_by_entity"
	eventsByCreatedAt = "events_by_created_at"
	eventsByExpiresAt = "events_by_expires_at"
	byID              = "by_id"
	byPosition        = "by_position"
)

// Events is an event.Store. It is safe for concurrent use. Each of its buckets contains one
// bucket per workspace:
//
//   - events contains by_id, which maps each id to the event in JSON, and by_position, which
//     maps the text of Event.Position to the id. bbolt sorts keys by bytes, so this is the
//     order of lists.
//   - events_by_entity contains a bucket for each entity, with the entries of by_position
//     of its events.
//   - events_by_created_at maps the text of Event.SyncPosition to the id.
//   - events_by_expires_at has an entry for each event that expires, from the text of a
//     record.Position with the time of expiry to the id.
type Events struct {
	workspaces *workspaces
	now        func() time.Time
}

// NewEvents returns the events in db, which other stores may share. The caller closes db.
func NewEvents(db *bbolt.DB, now func() time.Time) (*Events, error) {
	workspaces, err := openWorkspaces(db, eventsBucket, byID)
	if err != nil {
		return nil, err
	}
	return &Events{workspaces: workspaces, now: now}, nil
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

// eventPage returns a page of events, like readPage.
func eventPage(values iter.Seq2[[]byte, []byte], limit int) (record.Page[event.Event], error) {
	documents, err := readPage(values, limit, func(eventDocument) bool { return false })
	page := record.Page[event.Event]{More: documents.More}
	for _, d := range documents.Records {
		page.Records = append(page.Records, d.event())
	}
	return page, err
}

// Create implements event.Store. Concurrent calls share an fsync. The time of creation is
// taken inside the transaction, so that events are committed in the order of their creation.
func (s *Events) Create(ctx context.Context, workspace string, d event.Draft) (stored event.Event, created bool, err error) {
	err = s.workspaces.update(ctx, "create event", workspace, func(events *bbolt.Bucket) (err error) {
		e := d.At(s.now())
		if err := sweepEvents(events, workspace, e); err != nil {
			return err
		}
		d, isNew, err := createRecord(events, e.ID, eventDocument{e, e.ExpiresAt})
		if stored, created = d.event(), isNew; err != nil || !created {
			return err
		}
		return indexEvent(events, workspace, e)
	})
	return stored, created, err
}

// indexEvent puts an event into the indexes.
func indexEvent(events *bbolt.Bucket, workspace string, e event.Event) error {
	if err := putIndex(events.Tx(), e.SyncPosition().String(), e.ID, eventsByCreatedAt, workspace); err != nil {
		return err
	}
	if (e.ExpiresAt != record.Time{}) {
		if err := putIndex(events.Tx(), eventExpiry(e), e.ID, eventsByExpiresAt, workspace); err != nil {
			return err
		}
	}
	position := e.Position().String()
	err := putIndex(events.Tx(), position, e.ID, eventsBucket, workspace, byPosition)
	if err != nil || e.EntityID == "" {
		return err
	}
	return putIndex(events.Tx(), position, e.ID, eventsByEntity, workspace, string(e.EntityID))
}

// Get implements event.Store.
func (s *Events) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	d, err := getRecord[eventDocument](ctx, s.workspaces, "event", workspace, id)
	return d.event(), err
}

// List implements event.Store.
func (s *Events) List(ctx context.Context, workspace string, q event.Query) (page record.Page[event.Event], err error) {
	err = s.workspaces.view(ctx, "list events", workspace, func(events *bbolt.Bucket) (err error) {
		page, err = eventPage(scanEvents(events, workspace, q), q.Limit)
		return err
	})
	return page, err
}

// Changes implements event.Store.
func (s *Events) Changes(ctx context.Context, workspace string, q record.SyncQuery) (page record.Page[event.Event], err error) {
	err = s.workspaces.view(ctx, "list changes of events", workspace, func(events *bbolt.Bucket) (err error) {
		low, high := q.Bounds()
		ids := scan(bucketAt(events.Tx(), eventsByCreatedAt, workspace), low, high, !q.Descending)
		page, err = eventPage(lookup(events, ids), q.Limit)
		return err
	})
	return page, err
}

// Count implements event.Store.
func (s *Events) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (n int64, err error) {
	q.After = nil
	err = s.workspaces.view(ctx, "count events", workspace, func(events *bbolt.Bucket) (err error) {
		n, err = count(scanEvents(events, workspace, q), until)
		return err
	})
	return n, err
}

// scanEvents iterates over the events that q selects. events is the bucket byID of the
// workspace.
func scanEvents(events *bbolt.Bucket, workspace string, q event.Query) iter.Seq2[[]byte, []byte] {
	low, high := q.Bounds()
	path := []string{eventsBucket, workspace, byPosition}
	if q.EntityID != "" {
		path = []string{eventsByEntity, workspace, string(q.EntityID)}
	}
	positions := bucketAt(events.Tx(), path...)
	return lookup(events, scan(positions, low, high, q.Ascending))
}
