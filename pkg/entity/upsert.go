package entity

import (
	"context"

	"sluice/pkg/record"
)

// Upserted is the result of Upsert.
type Upserted struct {
	Entity  Entity  // as stored
	Created int     // index of the draft that created the entity; -1 if it existed
	Errs    []error // one per draft, nil if it was applied
}

// Upsert applies drafts, all for the entity id, in order, and stores the result by one write. The
// first draft creates the entity if it does not exist, without the attributes that are null in
// the draft. Otherwise, a draft is merged into the entity, as Update does, and replaces its type if
// the draft has one. Upsert writes nothing if nothing changes, so repeating a call has no effect.
//
// read is that of Write. A draft with an error of code Invalid is skipped. Only the first draft that
// is valid may have IfRevision. If the entity does not have that revision, every valid draft has an
// error of code Mismatch, and an error of the store is that of every valid draft too.
func Upsert(ctx context.Context, s Store, workspace, id string, drafts []Draft, read *Change) Upserted {
	u := Upserted{Created: -1, Errs: make([]error, len(drafts))}
	var when *Condition
	valid := 0
	for i, d := range drafts {
		if u.Errs[i] = d.checkUpsert(valid == 0); u.Errs[i] != nil {
			continue
		}
		if valid++; d.IfRevision != nil {
			when = &Condition{Revision: *d.IfRevision}
		}
	}
	if valid == 0 {
		return u
	}
	checked := u.Errs
	latest, _, err := s.Write(ctx, workspace, Write{Op: UpdateWrite, ID: id, If: when, Read: read, Edit: once(func(latest Change) (next Change, ok bool, err error) {
		u.Created, u.Errs = -1, append([]error(nil), checked...)
		e, live := latest.Entity, latest.Live()
		for i, d := range drafts {
			if u.Errs[i] != nil {
				continue
			}
			var merged Entity
			if merged, u.Errs[i] = d.mergeInto(e, live); u.Errs[i] != nil {
				continue
			}
			if !live {
				u.Created = i
			}
			e, live = merged, true
		}
		return Change{Entity: e, ErasedAt: latest.ErasedAt}, live && !(latest.Live() && same(e, latest.Entity)), nil
	})})
	u.Entity = latest.Entity
	for i := range u.Errs {
		if err != nil && checked[i] == nil {
			u.Errs[i] = err
		}
	}
	return u
}

// checkUpsert returns an error with code Invalid, or nil. first says whether no valid draft for
// the same entity comes before d.
func (d Draft) checkUpsert(first bool) error {
	if _, err := d.entity(); err != nil {
		return err
	}
	if d.IfRevision != nil && !first {
		return record.Fields{{Field: "if_revision", Detail: "may stand only on the first record with an id, because the records with one id are stored together"}}.Err()
	}
	return nil
}

func (d Draft) mergeInto(old Entity, live bool) (Entity, error) {
	e, err := d.entity()
	if err != nil {
		return Entity{}, err
	}
	typ := d.Type
	if !live {
		old, typ = Entity{Attributes: record.Attributes("{}")}, e.Type
	}
	return merge(old, typ, e.Attributes)
}
