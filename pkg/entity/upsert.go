package entity

import (
	"cmp"
	"context"
	"fmt"

	"sluice/pkg/record"
)

// Upsert creates the entity that change describes, or merges change into the existing
// entity with the same id. It merges attributes as Update does. If change.Type is not
// empty, it also replaces the type. It returns the stored entity and reports whether
// Upsert created that entity. A new entity without a type gets DefaultType. A new entity
// does not contain the attributes that are null in change.
//
// old is the entity as the caller has read it, or nil if there was none. If another request
// has changed it since, Upsert reads it again. If the entity already matches change, Upsert
// writes nothing. Repeating a call therefore has no effect. The error has kind Invalid or
// Unavailable in the same cases as in Update.
func Upsert(ctx context.Context, s Store, workspace string, change Entity, old *Entity) (stored Entity, created bool, err error) {
	e, err := newFrom(change)
	if err != nil {
		return Entity{}, false, err
	}
	err = retry(ctx, "upsert entity", change.ID, func(try int) (done bool, err error) {
		if try > 0 {
			if old, err = find(ctx, s, workspace, change.ID); err != nil {
				return false, err
			}
		}
		if old == nil {
			var latest Change
			latest, created, err = s.Write(ctx, workspace, Write{Kind: CreateWrite, Entity: e})
			if stored = latest.Entity; err != nil || created {
				return true, err
			}
			old = &latest.Entity // another request has created it
		}
		stored, done, err = merge(ctx, s, workspace, *old, change)
		return done, err
	})
	if err != nil {
		return Entity{}, false, err
	}
	return stored, created, nil
}

// find returns an entity, or nil if it does not exist.
func find(ctx context.Context, s Store, workspace, id string) (*Entity, error) {
	found, err := s.GetEach(ctx, workspace, []string{id})
	e, exists := found[id]
	if err != nil || !exists {
		return nil, err
	}
	return &e, nil
}

// newFrom returns the entity that Upsert creates from change.
func newFrom(change Entity) (e Entity, err error) {
	e = Entity{ID: change.ID, Type: cmp.Or(change.Type, DefaultType)}
	if err := e.validate(); err != nil {
		return Entity{}, err
	}
	if e.Attributes, err = record.MergeAttributes(record.Attributes("{}"), change.Attributes); err != nil {
		return Entity{}, fmt.Errorf("upsert entity: %w", err)
	}
	return e, nil
}
