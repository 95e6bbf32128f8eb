package index

import (
	"context"

	"sluice/pkg/record"
)

// EventNames returns the declaration of an index of the events of a workspace by name. It has no
// type. Stores sort these events by time, like all lists of events.
func EventNames(workspace string) Declaration {
	return Declaration{Workspace: workspace, Fields: Fields{{Name: "name", ValueType: Text}}}
}

// OfEvents reports whether d is an index of events.
func (d Declaration) OfEvents() bool { return d.Type == "" }

// EventNames returns the workspace's index of events by name, if there is one, whatever its state.
func (s Set) EventNames(workspace string) (d Declaration, ok bool) {
	all := s.Of(workspace, "")
	if len(all) == 0 {
		return Declaration{}, false
	}
	return all[0], true
}

// Keepers is the Keeper of the indexes of entities and of events.
type Keepers struct{ Entities, Events Keeper }

func (k Keepers) of(d Declaration) Keeper {
	if d.OfEvents() {
		return k.Events
	}
	return k.Entities
}

func (k Keepers) Expect(ctx context.Context, d Declaration) (int64, error) {
	return k.of(d).Expect(ctx, d)
}

func (k Keepers) BuildKeys(ctx context.Context, d Declaration, cursor record.Cursor, limit int) (Step, error) {
	return k.of(d).BuildKeys(ctx, d, cursor, limit)
}

func (k Keepers) ClearKeys(ctx context.Context, d Declaration, cursor record.Cursor, limit int) (record.Cursor, error) {
	return k.of(d).ClearKeys(ctx, d, cursor, limit)
}
