package boltstore

import (
	"context"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/record/boltrecord"
)

// Erase implements event.Store with one transaction.
func (s *Store) Erase(ctx context.Context, workspace string, q event.Erasure) (erased event.Erased, err error) {
	err = s.workspaces.Update(ctx, "erase events", workspace, func(events *bbolt.Bucket) error {
		erased = event.Erased{}
		all, more, err := boltrecord.Page[event.Event](scan(events, workspace, event.Query{
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

// removeEmpty removes the bucket of an entity's events if it is empty: its name is the
// id of the entity.
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
