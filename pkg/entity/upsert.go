package entity

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"sluice/pkg/record"
)

// setInWalks are the members with which a walk returns an entity or a tombstone, and which the
// service sets. An upsert ignores them, so that a line of a walk can be sent back.
var setInWalks = slices.DeleteFunc(
	slices.Concat(record.SetByService((&Change{}).Members(nil)), record.SetByService((&Change{Deleted: true}).Members(nil))),
	func(name string) bool { return name == "deleted" },
)

var errReason = errors.New("says that the entity has left a filter, but it may still exist; to delete it, send only id and deleted")

// ParseUpsert is like Parse, for an element of an upsert.
func ParseUpsert(text []byte, ignored ...string) (Draft, error) {
	var revision int64
	e, d := Entity{Attributes: record.Attributes("{}")}, Draft{}
	given, err := record.Parse(text, append(e.Members(nil),
		record.Member{Name: "replace", Value: &d.Replace},
		record.Member{Name: "deleted", Value: &d.Deleted},
		record.Member{Name: "reason", Value: new(string), Check: func(string) error { return errReason }},
		record.Member{Name: "if_revision", Value: &revision},
	), append(ignored, setInWalks...)...)
	d.ID, d.Type, d.Attributes = e.ID, e.Type, e.Attributes
	if given["if_revision"] {
		d.IfRevision = &revision
	}
	if err == nil && d.Deleted && d.ID == "" {
		err = CheckGivenID("").Err()
	}
	return d, err
}

// Upserted is the result of Upsert.
type Upserted struct {
	Entity  Entity  // as stored; without a meaning if Deleted
	Deleted bool    // whether there is no entity now
	Created int     // index of the draft that created the entity; -1 if it existed, or does not exist now
	Errs    []error // one per draft, nil if it was applied
}

// Upsert applies drafts, all for the entity id, in order, and stores the result by one write. A
// draft with Deleted deletes the entity. One with Replace takes its place, and has DefaultType if it
// has no type. Any other draft is merged into the entity, as Update does, and replaces its type if
// the draft has one. If the entity does not exist, a draft without Deleted creates it; one without
// Replace, without the attributes that are null in the draft. Upsert writes nothing if nothing
// changes, so repeating a call has no effect.
//
// read is that of Write. A draft with an error of code Invalid is skipped. Only the first draft that
// is valid may have IfRevision. If the entity does not have that revision, every valid draft has an
// error of code Mismatch, and an error of the store is that of every valid draft too.
func Upsert(ctx context.Context, s Store, workspace, id string, drafts []Draft, read *Change) Upserted {
	u := Upserted{Created: -1, Errs: make([]error, len(drafts))}
	given := make([]Entity, len(drafts))
	var when *Condition
	valid := 0
	for i, d := range drafts {
		if given[i], u.Errs[i] = d.checkUpsert(valid == 0); u.Errs[i] != nil {
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
		next, u.Created, u.Errs = applied(id, drafts, given, checked, latest)
		return next, next.Live() != latest.Live() || next.Live() && !same(next.Entity, latest.Entity), nil
	})})
	u.Entity, u.Deleted = latest.Entity, !latest.Live()
	for i := range u.Errs {
		if err != nil && checked[i] == nil {
			u.Errs[i] = err
		}
	}
	return u
}

// applied applies the drafts without an error in checked to latest, the entity id. given are the
// entities that they describe. created and errs are those of Upserted.
func applied(id string, drafts []Draft, given []Entity, checked []error, latest Change) (next Change, created int, errs []error) {
	created, errs = -1, slices.Clone(checked)
	e, live := latest.Entity, latest.Live()
	for i, d := range drafts {
		switch {
		case errs[i] != nil:
			continue
		case d.Deleted:
			live = false
			continue
		}
		var changed Entity
		if changed, errs[i] = d.applyTo(e, live, given[i]); errs[i] != nil {
			continue
		}
		if !live {
			created = i
		}
		e, live = changed, true
	}
	if latest.Live() || !live {
		created = -1
	}
	if !live {
		return tombstone(latest), created, errs
	}
	e.ID = id
	return Change{Entity: e, ErasedAt: latest.ErasedAt}, created, errs
}

// checkUpsert returns the entity that d describes, or an error with code Invalid. first says whether
// no valid draft for the same entity comes before d.
func (d Draft) checkUpsert(first bool) (given Entity, err error) {
	if given, err = d.entity(); err == nil && d.IfRevision != nil && !first {
		err = record.Fields{{Field: "if_revision", Detail: "may stand only on the first record with an id, because the records with one id are stored together"}}.Err()
	}
	return given, err
}

// applyTo applies d, which describes given, to old, if that is live.
func (d Draft) applyTo(old Entity, live bool, given Entity) (Entity, error) {
	plain := len(given.Attributes) <= record.MaxAttributesBytes && !bytes.Contains(given.Attributes, []byte("null"))
	switch {
	case d.Replace, !live && plain: // nothing to merge, to leave out or to reject
		return given, nil
	case !live:
		return merge(Entity{Attributes: record.Attributes("{}")}, given.Type, given.Attributes)
	default:
		return merge(old, d.Type, given.Attributes)
	}
}
