package bolt

import (
	"context"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Erase implements event.Store with one transaction.
func (s *Events) Erase(ctx context.Context, workspace string, q event.Erasure) (erased event.Erased, err error) {
	err = s.workspaces.update(ctx, "erase events", workspace, func(events *bbolt.Bucket) error {
		erased = event.Erased{}
		page, err := eventPage(scanEvents(events, workspace, event.Query{
			EntityID: event.OptionalID(q.EntityID), After: q.After, Ascending: true,
		}), q.Limit)
		if err != nil {
			return err
		}
		erased.More = page.More
		for _, e := range page.Records {
			last := e.Position()
			erased.Last = &last
			if e.CreatedAt.Compare(q.Until) > 0 {
				continue
			}
			if err := removeEvent(events, workspace, e); err != nil {
				return err
			}
			erased.Events++
		}
		return removeEmpty(events.Tx(), workspace, q.EntityID)
	})
	if err != nil {
		return event.Erased{}, err
	}
	return erased, nil
}

// removeEvent removes an event from the bucket byID of its workspace and from the indexes.
func removeEvent(events *bbolt.Bucket, workspace string, e event.Event) error {
	position := e.Position().String()
	indexes := map[*bbolt.Bucket]string{
		bucketAt(events.Tx(), eventsBucket, workspace, byPosition): position,
		bucketAt(events.Tx(), eventsByCreatedAt, workspace):        e.SyncPosition().String(),
		events: e.ID,
	}
	if (e.ExpiresAt != record.Time{}) {
		indexes[bucketAt(events.Tx(), eventsByExpiresAt, workspace)] = eventExpiry(e)
	}
	if e.EntityID != "" {
		indexes[bucketAt(events.Tx(), eventsByEntity, workspace, string(e.EntityID))] = position
	}
	for b, key := range indexes {
		if err := b.Delete([]byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes the bucket of an entity's events if it is empty. Its name is the id of
// the entity, which must not remain after an erasure.
func removeEmpty(tx *bbolt.Tx, workspace, entityID string) error {
	entities := bucketAt(tx, eventsByEntity, workspace)
	b := bucketAt(tx, eventsByEntity, workspace, entityID)
	if b == nil {
		return nil
	}
	if first, _ := b.Cursor().First(); first != nil {
		return nil
	}
	return entities.DeleteBucket([]byte(entityID))
}

// sweepEvents removes some events that had expired by e.CreatedAt, and in any case an expired
// one with the id of e.
func sweepEvents(events *bbolt.Bucket, workspace string, e event.Event) error {
	expired := expired(bucketAt(events.Tx(), eventsByExpiresAt, workspace), e.CreatedAt)
	expired[eventExpiry(e)] = e.ID
	for _, id := range expired {
		value := events.Get([]byte(id))
		if value == nil {
			continue
		}
		d, err := decode[eventDocument](value)
		if err != nil {
			return err
		}
		if old := d.event(); old.Expired(e.CreatedAt) {
			if err := removeEvent(events, workspace, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventExpiry returns the key of e in events_by_expires_at.
func eventExpiry(e event.Event) string {
	return record.Position{At: e.ExpiresAt, ID: e.ID}.String()
}
