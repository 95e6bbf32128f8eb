package entity

import (
	"bytes"
	"context"
	"time"

	"sluice/pkg/record"
)

// Op says what a Write does.
type Op string

const (
	CreateWrite  Op = "create"  // stores Entity, unless the entity exists
	ReplaceWrite Op = "replace" // stores Entity in place of Old, unless Old has changed or is gone
	DeleteWrite  Op = "delete"  // replaces the entity with a tombstone, if it exists
	EraseWrite   Op = "erase"   // stores a tombstone with ErasedAt, even if the entity never existed
)

// Write is a change that a store is asked to make to an entity. Next defines the effect, which
// is the same in every store.
type Write struct {
	Op     Op
	Entity Entity // the store sets CreatedAt and UpdatedAt; for a deletion or an erasure, only ID matters
	Old    Entity // for ReplaceWrite, the entity as it was read
}

// Next returns the change that w makes at time now. latest is the entity's latest change; it
// has no ID if the entity never existed. ok is false if there is nothing to store.
func (w Write) Next(latest Change, now time.Time) (next Change, ok bool) {
	known := latest.ID != ""
	exists := known && !latest.Deleted
	stamp := record.TimeOf(now)
	if known {
		stamp = latest.SyncPosition().At.Next(now)
	}
	next = Change{Entity: w.Entity, ErasedAt: latest.ErasedAt}
	switch w.Op {
	case CreateWrite:
		next.CreatedAt, next.UpdatedAt = stamp, stamp
		return next, !exists
	case ReplaceWrite:
		next.CreatedAt, next.UpdatedAt = latest.CreatedAt, stamp
		return next, exists && latest.UpdatedAt == w.Old.UpdatedAt
	}
	next.Deleted, next.DeletedAt = true, stamp
	next.Entity = Entity{ID: w.Entity.ID, Type: latest.Type, CreatedAt: latest.CreatedAt}
	if w.Op == DeleteWrite {
		return next, exists
	}
	if next.ErasedAt = stamp; !known {
		next.Type, next.CreatedAt = DefaultType, stamp
	}
	return next, true
}

// Stored reports whether w was stored. next is the change that w.Next returned, and found is the
// change in the store. A store needs this after retrying a write whose response was lost. Two
// writers may pick the same stamp, so Stored also compares the content.
func (w Write) Stored(next, found Change) bool {
	switch {
	case found.SyncPosition() != next.SyncPosition() || found.Deleted != next.Deleted:
		return false
	case w.Op == EraseWrite:
		return found.ErasedAt == next.ErasedAt
	case w.Op == DeleteWrite:
		return true
	}
	return found.Type == next.Type && found.CreatedAt == next.CreatedAt && bytes.Equal(found.Attributes, next.Attributes)
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
