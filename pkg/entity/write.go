package entity

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// Op says which entities a Write changes, so that a store need not read the entity first.
type Op string

const (
	CreateWrite Op = "create" // changes only what is not live
	UpdateWrite Op = "update" // depends on what is stored
	DeleteWrite Op = "delete" // changes only what is live
	EraseWrite  Op = "erase"  // changes anything
)

// Write is a change that a store is asked to make to an entity. Next defines the effect, which
// is the same in every store.
type Write struct {
	Op Op
	ID string
	If *Condition // nil for none

	// Read is the entity's latest change as GetEach has just returned it, or a Change without an
	// ID if there was none; nil if the caller has not read it.
	Read *Change

	// Asked is when the clock was read for what Edit stores. No attempt is sent later than
	// record.WriteTimeout after it. The zero value means that Edit needs no clock.
	Asked time.Time

	// Edit returns what to store in place of latest, the entity's latest change, which has no ID if
	// there is none. Next sets the id, the revision and the stamps. ok is false if there is
	// nothing to store. A store calls Edit again if the entity has changed in the meantime.
	Edit func(latest Change, stamp record.Time) (next Change, ok bool, err error)
}

// Next returns the change that w makes to an entity whose latest change is latest. If ok is
// false, or if there is an error, there is nothing to store. The error has code Mismatch if latest
// does not meet w.If; other errors are those of w.Edit.
func (w Write) Next(latest Change, stamp record.Time) (next Change, ok bool, err error) {
	if err := w.If.check(w.ID, latest); err != nil {
		return Change{}, false, err
	}
	next, ok, err = w.Edit(latest, stamp)
	if err != nil || !ok {
		return Change{}, false, err
	}
	next.ID, next.Revision, next.CreatedAt = w.ID, latest.Revision+1, latest.CreatedAt
	if latest.ID == "" || latest.Deleted && !next.Deleted {
		next.CreatedAt = stamp
	}
	if next.Deleted {
		next.UpdatedAt, next.DeletedAt = record.Time{}, stamp
	} else {
		next.UpdatedAt, next.DeletedAt = stamp, record.Time{}
	}
	return next, true, nil
}

// once returns an Edit that calls edit again only if the entity has changed, so that a store need
// not merge in its transaction what it has merged before.
func once(edit func(latest Change) (next Change, ok bool, err error)) func(Change, record.Time) (Change, bool, error) {
	var was, next Change
	var ok, called bool
	var err error
	return func(latest Change, _ record.Time) (Change, bool, error) {
		if !called || latest.Revision != was.Revision || latest.SyncPosition() != was.SyncPosition() {
			next, ok, err = edit(latest)
			was, called = latest, true
		}
		return next, ok, err
	}
}

// Creation stores e unless the entity exists.
func Creation(e Entity) Write {
	return Write{Op: CreateWrite, ID: e.ID, Edit: func(latest Change, _ record.Time) (next Change, ok bool, err error) {
		return Change{Entity: e, ErasedAt: latest.ErasedAt}, !latest.Live(), nil
	}}
}

// Deletion replaces the entity, if it exists, with a tombstone.
func Deletion(id string, when *Condition) Write {
	return Write{Op: DeleteWrite, ID: id, If: when, Edit: func(latest Change, _ record.Time) (next Change, ok bool, err error) {
		return tombstone(latest), latest.Live(), nil
	}}
}

// Erasure stores a tombstone with the ErasedAt at, even if the entity never existed. It does nothing
// after that erasure or a later one. at is the time of an erasure's job; asked is when the clock was
// read for it.
func Erasure(id string, at record.Time, asked time.Time) Write {
	return Write{Op: EraseWrite, ID: id, Asked: asked, Edit: func(latest Change, _ record.Time) (next Change, ok bool, err error) {
		return erased(latest, at), latest.ErasedAt.Compare(at) < 0, nil
	}}
}

// Completion does what an Erasure should have done that was lost after its job was stored. So long
// after it, an entity that was created later than at, even by a clock that is behind, is another
// one: it stays, and only gets the ErasedAt.
func Completion(id string, at record.Time) Write {
	return Write{Op: UpdateWrite, ID: id, Edit: func(latest Change, _ record.Time) (next Change, ok bool, err error) {
		next = erased(latest, at)
		if latest.Live() && latest.CreatedAt.Time().Sub(at.Time()) > 2*record.MaxClockSkew {
			next = latest
			next.ErasedAt = at
		}
		return next, latest.ErasedAt.Compare(at) < 0, nil
	}}
}

func erased(latest Change, at record.Time) Change {
	next := tombstone(latest)
	next.Type, next.ErasedAt = cmp.Or(latest.Type, DefaultType), at
	return next
}

func tombstone(latest Change) Change {
	return Change{Entity: Entity{Type: latest.Type}, Deleted: true, ErasedAt: latest.ErasedAt}
}

// Condition says for which revision of an entity a change was made. A nil *Condition is met by
// anything.
type Condition struct {
	Revision int64 // 0 if no live entity may exist
	Any      bool  // whether any live entity will do; Revision then has no meaning
}

// check returns an error with code Mismatch if latest does not meet c.
func (c *Condition) check(id string, latest Change) error {
	live := latest.Live()
	if c == nil || c.Any && live || !c.Any && live == (c.Revision != 0) && (!live || latest.Revision == c.Revision) {
		return nil
	}
	if !live {
		return &record.Error{Code: record.Mismatch, Detail: fmt.Sprintf("there is no entity with the id %q, so its revision is 0; read it again and decide anew", id)}
	}
	return &record.Error{
		Code: record.Mismatch, Revision: latest.Revision,
		Detail: fmt.Sprintf("the entity %q has the revision %d, not %d; read it again and decide anew", id, latest.Revision, c.Revision),
	}
}

// ClockFault says that a write found a stamp from a wrong clock (see record.Time.Next) and
// replaced it with an earlier stamp.
type ClockFault struct {
	Workspace, ID string
	Was, Now      record.Time // the wrong stamp and its replacement
}

// Clock gives a store its stamps. The zero value is ready to use.
type Clock struct {
	Now   func() time.Time                  // time.Now if nil
	Fault func(context.Context, ClockFault) // called after each write that corrected a stamp; may be nil
}

func (c Clock) Time() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Check calls c.Fault if next has an earlier stamp than latest, the change that it replaced.
func (c Clock) Check(ctx context.Context, workspace string, latest, next Change) {
	was, now := latest.SyncPosition().At, next.SyncPosition().At
	if latest.ID != "" && now.Compare(was) < 0 && c.Fault != nil {
		c.Fault(ctx, ClockFault{Workspace: workspace, ID: next.ID, Was: was, Now: now})
	}
}
