package entity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// Upsert creates the entity that change describes, or merges change into the entity
// with its id: its attributes as Update does, and its type, unless that is "". It
// returns the entity as it is then and whether it was created. A new entity without a
// type is of DefaultType, and has no attributes that are null in change.
//
// UpdatedAt becomes now, but at least a millisecond later than before, unless change
// changes nothing: then nothing is written, and so a repeat leaves the entity as the
// first call did. Upsert fails with kind Invalid
// and Unavailable as Update does, and changes nothing then.
func Upsert(ctx context.Context, s Store, workspace string, change Entity, now time.Time) (stored Entity, created bool, err error) {
	e, err := newFrom(change, now)
	if err != nil {
		return Entity{}, false, err
	}
	err = retry(ctx, "upsert entity", change.ID, func() (done bool, err error) {
		was, err := s.Get(ctx, workspace, change.ID)
		if isNotFound(err) {
			was, created, err = s.Create(ctx, workspace, e)
		}
		if err != nil || created {
			stored = was
			return created, err
		}
		var changed bool
		if stored, changed, err = was.merge(change, now); err != nil || !changed {
			return true, err
		}
		return s.Replace(ctx, workspace, was, stored)
	})
	if err != nil {
		return Entity{}, false, err
	}
	return stored, created, nil
}

// newFrom returns the entity that Upsert creates of change.
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

func isNotFound(err error) bool {
	var failure *record.Error
	return errors.As(err, &failure) && failure.Kind == record.NotFound
}
