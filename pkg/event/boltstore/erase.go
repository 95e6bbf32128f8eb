package boltstore

import (
	"context"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/boltrecord"
)

// Erase implements event.Store with one transaction.
func (s *Store) Erase(ctx context.Context, workspace string, q event.Erasure) (erased event.Erased, err error) {
	err = s.workspaces.Update(ctx, "erase events", workspace, func(events *bbolt.Bucket) error {
		erased = event.Erased{}
		all, more, err := page(scan(events, workspace, event.Query{
			EntityID: event.OptionalID(q.EntityID), After: q.After, Ascending: true,
		}), q.Limit)
		if err != nil {
			return err
		}
		erased.More = more
		for _, e := range all {
			last := e.Position()
			erased.Last = &last
			if e.CreatedAt.Compare(q.Until) > 0 {
				continue
			}
			if err := remove(events, workspace, e); err != nil {
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

// remove removes an event from the bucket byID of its workspace and from the indexes.
func remove(events *bbolt.Bucket, workspace string, e event.Event) error {
	position := e.Position().String()
	indexes := map[*bbolt.Bucket]string{
		boltrecord.Bucket(events.Tx(), top, workspace, byPosition): position,
		boltrecord.Bucket(events.Tx(), byCreatedAt, workspace):     e.SyncPosition().String(),
		events: e.ID,
	}
	if (e.ExpiresAt != record.Time{}) {
		indexes[boltrecord.Bucket(events.Tx(), byExpiresAt, workspace)] = expiry(e)
	}
	if e.EntityID != "" {
		indexes[boltrecord.Bucket(events.Tx(), byEntity, workspace, string(e.EntityID))] = position
	}
	for b, key := range indexes {
		if err := b.Delete([]byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes the bucket of an entity's events if the bucket is empty. The name
// of the bucket is the id of the entity, which must not remain after an erasure.
func removeEmpty(tx *bbolt.Tx, workspace, entityID string) error {
	entities := boltrecord.Bucket(tx, byEntity, workspace)
	b := boltrecord.Bucket(tx, byEntity, workspace, entityID)
	if b == nil {
		return nil
	}
	if first, _ := b.Cursor().First(); first != nil {
		return nil
	}
	return entities.DeleteBucket([]byte(entityID))
}

// sweep removes some events that had expired by e.CreatedAt. If the store has an expired
// event with the id of e, sweep always removes that event.
func sweep(events *bbolt.Bucket, workspace string, e event.Event) error {
	expired := boltrecord.Expired(boltrecord.Bucket(events.Tx(), byExpiresAt, workspace), e.CreatedAt)
	expired[expiry(e)] = e.ID
	for _, id := range expired {
		value := events.Get([]byte(id))
		if value == nil {
			continue
		}
		d, err := boltrecord.Decode[document](value)
		if err != nil {
			return err
		}
		if old := d.event(); old.Expired(e.CreatedAt) {
			if err := remove(events, workspace, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// expiry returns the key of e in events_by_expires_at.
func expiry(e event.Event) string {
	return record.SyncPosition{At: e.ExpiresAt, ID: e.ID}.String()
}
