package entity

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// Upsert creates the entity that change describes, or merges change into the existing
// entity with the same id. It merges attributes as Update does. If change.Type is not
// empty, it also replaces the type. It returns the stored entity and reports whether
// Upsert created that entity. A new entity without a type gets DefaultType. A new entity
// does not contain the attributes that are null in change.
//
// Upsert sets UpdatedAt as Update does. If the entity already matches change, Upsert
// writes nothing. Repeating a call therefore has no effect. The error has kind Invalid or
// Unavailable in the same cases as in Update. After an error of kind Invalid, the entity
// is unchanged. After an error of kind Unavailable, the change may have been
// stored.
func Upsert(ctx context.Context, s Store, workspace string, change Entity, now time.Time) (stored Entity, created bool, err error) {
	e, err := newFrom(change, now)
	if err != nil {
		return Entity{}, false, err
	}
	err = retry(ctx, "upsert entity", change.ID, func() (done bool, err error) {
		old, err := s.Get(ctx, workspace, change.ID)
		if record.KindOf(err) == record.NotFound {
			old, created, err = s.Create(ctx, workspace, e)
		}
		if err != nil || created {
			stored = old
			return created, err
		}
		var changed bool
		if stored, changed, err = old.merge(change, now); err != nil || !changed {
			return true, err
		}
		return s.Replace(ctx, workspace, old, stored)
	})
	if err != nil {
		return Entity{}, false, err
	}
	return stored, created, nil
}

// newFrom returns the entity that Upsert creates from change.
func newFrom(change Entity, now time.Time) (e Entity, err error) {
	e = Entity{ID: change.ID, Type: cmp.Or(change.Type, DefaultType), CreatedAt: record.TimeOf(now), UpdatedAt: record.TimeOf(now)}
	if err := e.validate(); err != nil {
		return Entity{}, err
	}
	if e.Attributes, err = record.MergeAttributes(record.Attributes("{}"), change.Attributes); err != nil {
		return Entity{}, fmt.Errorf("upsert entity: %w", err)
	}
	return e, nil
}
