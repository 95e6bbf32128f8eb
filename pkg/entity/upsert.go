package entity

import (
	"context"
	"fmt"

	"sluice/pkg/record"
)

// Upsert creates the entity that d describes, without the attributes that are null in d. If
// the entity exists, Upsert merges d into it, as Update does, and replaces its type if d has
// one. It returns the stored entity and whether it is new.
//
// old is the entity as the caller read it, or nil if it did not exist. If another request
// has changed the entity in the meantime, Upsert reads it again. Upsert writes nothing if the
// entity already matches d, so repeating a call has no effect. The error has code Invalid or
// Unavailable, as in Update.
func Upsert(ctx context.Context, s Store, workspace string, d Draft, old *Entity) (stored Entity, created bool, err error) {
	e, err := d.entity()
	if err != nil {
		return Entity{}, false, err
	}
	patch := e.Attributes
	if e.Attributes, err = record.MergeAttributes(record.Attributes("{}"), patch); err != nil {
		return Entity{}, false, fmt.Errorf("upsert entity: %w", err)
	}
	err = retry(ctx, "upsert entity", d.ID, func(try int) (done bool, err error) {
		if try > 0 {
			if old, err = find(ctx, s, workspace, d.ID); err != nil {
				return false, err
			}
		}
		if old == nil {
			var latest Change
			latest, created, err = s.Write(ctx, workspace, Write{Op: CreateWrite, Entity: e})
			if stored = latest.Entity; err != nil || created {
				return true, err
			}
			old = &latest.Entity // another request has created it
		}
		stored, done, err = merge(ctx, s, workspace, *old, d.Type, patch)
		return done, err
	})
	if err != nil {
		return Entity{}, false, err
	}
	return stored, created, nil
}

// find returns nil if there is no such entity.
func find(ctx context.Context, s Store, workspace, id string) (*Entity, error) {
	found, err := s.GetEach(ctx, workspace, []string{id})
	e, exists := found[id]
	if err != nil || !exists {
		return nil, err
	}
	return &e, nil
}
