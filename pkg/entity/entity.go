// Package entity defines entities, one of the two kinds of records, and the interface for storing
// them.
package entity

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/pkg/record"
)

// DefaultType is the type of an entity that is created without one.
const DefaultType = "entity"

// Entity is a record that has a type and attributes and can change.
type Entity struct {
	ID         string
	Type       string
	Attributes record.Attributes
	CreatedAt  record.Time
	UpdatedAt  record.Time // time of the latest change, initially CreatedAt; increases with every change
}

// Members appends to m the members of e, which are the same in the API, in export files and in
// import files.
func (e *Entity) Members(m []record.Member) []record.Member {
	return append(m,
		record.Member{Name: "id", Value: &e.ID, Check: record.CheckID},
		record.Member{Name: "type", Value: &e.Type, Check: record.CheckName},
		record.Member{Name: "attributes", Value: &e.Attributes},
		record.Member{Name: "created_at", Value: &e.CreatedAt, ByService: true},
		record.Member{Name: "updated_at", Value: &e.UpdatedAt, ByService: true},
	)
}

// AppendJSON appends e to b; see [record.AppendJSON].
func (e Entity) AppendJSON(b []byte) ([]byte, error) {
	var m record.Room
	return record.AppendJSON(b, e.Members(m[:0]))
}

func (e Entity) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

func (e *Entity) UnmarshalJSON(object []byte) error { return record.ReadJSON(object, e.Members(nil)) }

// Draft describes an entity to create, or changes to an existing one, in the JSON that clients
// send.
type Draft struct {
	ID         string            `json:"id,omitzero"`
	Type       string            `json:"type,omitzero"`       // "" means DefaultType for a new entity, and no change for an existing one
	Attributes record.Attributes `json:"attributes,omitzero"` // nil for {}
}

// Parse decodes the body of a request or a line of an import file. Every member may be absent
// or null. Parse skips the members named in ignored; an import skips those that are set by the
// service. The error is a *record.Error with code Malformed or Invalid. An error with code Invalid
// names the invalid members.
func Parse(text []byte, ignored ...string) (Draft, error) {
	e := Entity{Attributes: record.Attributes("{}")}
	_, err := record.Parse(text, e.Members(nil), ignored...)
	return Draft{ID: e.ID, Type: e.Type, Attributes: e.Attributes}, err
}

// entity returns the entity that d creates, or an error with code Invalid.
func (d Draft) entity() (Entity, error) {
	e := Entity{ID: d.ID, Type: cmp.Or(d.Type, DefaultType), Attributes: d.Attributes}
	if e.Attributes == nil {
		e.Attributes = record.Attributes("{}")
	}
	return e, record.Check(e.Members(nil)).Err()
}

// Query requests a page of a workspace's entities in ascending byte order of id.
type Query struct {
	Type   string        // empty for all types
	Cursor record.Cursor // Next of the previous page; "" for the first page
	Limit  int           // at least 1
}

// Store holds entities by workspace and id. A workspace is a non-empty string without '#'. A Store
// is safe for concurrent use. Every method may fail with a *record.Error with code Unavailable.
type Store interface {
	// Get returns an entity, or a *record.Error with code NotFound.
	Get(ctx context.Context, workspace, id string) (Entity, error)

	// GetEach returns the entities that exist, keyed by id. ids may contain duplicates.
	GetEach(ctx context.Context, workspace string, ids []string) (map[string]Entity, error)

	// List returns the entities that q selects. A page may have fewer than q.Limit, or none, even
	// if more follow: record.MaxPageBytes limits its size, and record.MaxPassedBytes limits how
	// many deleted entities it can skip. The error may be record.ErrCursor.
	List(ctx context.Context, workspace string, q Query) (record.Page[Entity], error)

	// Count returns how many of the entities that q selects have CreatedAt <= until. It ignores
	// q.Cursor and q.Limit.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Changes returns the latest change of each entity, even a tombstone, if q selects that change.
	// The page and the error are as in List.
	Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[Change], error)

	// Write atomically replaces the entity's latest change with the one that w.Next returns, and
	// keeps a tombstone for TombstoneAge. It returns the entity's latest change after the call, and
	// whether the call stored it. The stamp comes from the store's clock. After an error of kind
	// Unavailable, the change may have been stored.
	Write(ctx context.Context, workspace string, w Write) (latest Change, written bool, err error)
}

// Create stores the entity that d describes, with the current time. If the same entity exists,
// it is returned unchanged, and created is false. The error has code Conflict if the entity
// exists with another type or other attributes, and code Invalid if a field of d is not valid.
func Create(ctx context.Context, s Store, workspace string, d Draft) (stored Entity, created bool, err error) {
	e, err := d.entity()
	if err != nil {
		return Entity{}, false, err
	}
	latest, created, err := s.Write(ctx, workspace, Write{Op: CreateWrite, Entity: e})
	if err != nil {
		return Entity{}, false, err
	}
	if stored = latest.Entity; !created && !record.Same(stored.Members(nil), e.Members(nil)) {
		return Entity{}, false, &record.Error{Code: record.Conflict, Detail: fmt.Sprintf("another entity already has the id %q; change it with update_entity or upsert_entities, or choose another id", e.ID)}
	}
	return stored, created, nil
}

// backOff has the maximum random wait after each attempt in retry except the last. The waits are
// long because concurrent updates of one entity make each other fail. If a call to the store
// takes 5 ms, 200 concurrent updates make about 2.5 replacements each, and 9 of 10 updates are
// applied within 5 seconds.
var backOff = [...]time.Duration{time.Second, 3 * time.Second}

// Update merges patch into the attributes of an entity (record.MergeAttributes) and returns
// the result. It writes nothing if patch changes nothing, so repeating a call has no effect.
//
// The error has code Invalid if id or patch is invalid or the result exceeds
// record.MaxAttributesBytes, and code NotFound if there is no such entity. It has kind
// Unavailable if it is unknown whether the update was stored, or if other requests changed the
// entity during every attempt.
func Update(ctx context.Context, s Store, workspace, id string, patch record.Attributes) (Entity, error) {
	wrong := checkGivenID(id)
	if patch == nil {
		wrong.Add("attributes", "is required: an object with the attributes to change, and null for each one to remove")
	}
	if err := wrong.Err(); err != nil {
		return Entity{}, err
	}
	var updated Entity
	err := retry(ctx, "update entity", id, func(int) (done bool, err error) {
		old, err := s.Get(ctx, workspace, id)
		if err == nil {
			updated, done, err = merge(ctx, s, workspace, old, "", patch)
		}
		return done, err
	})
	if err != nil {
		return Entity{}, err
	}
	return updated, nil
}

// retry calls write up to three times, until write fails or returns true. write returns false if
// another request has changed the entity in the meantime.
func retry(ctx context.Context, op, id string, write func(try int) (done bool, err error)) error {
	for try := 0; ; try++ {
		done, err := write(try)
		switch {
		case done || err != nil:
			return err
		case try == len(backOff):
			return &record.Error{Code: record.Unavailable, Detail: fmt.Sprintf("other requests keep changing the entity %q; try again", id)}
		}
		select {
		case <-time.After(rand.N(backOff[try])):
		case <-ctx.Done():
			return record.UnavailableError(op, ctx.Err())
		}
	}
}

// merge applies patch to the attributes of old, sets the type to typ unless typ is "", and stores
// the result if it differs from old. done is false if another request has changed the entity.
func merge(ctx context.Context, s Store, workspace string, old Entity, typ string, patch record.Attributes) (merged Entity, done bool, err error) {
	attributes, err := record.MergeAttributes(old.Attributes, patch)
	merged = old
	merged.Type, merged.Attributes = cmp.Or(typ, old.Type), attributes
	switch {
	case err != nil:
		return Entity{}, false, fmt.Errorf("update entity: %w", err)
	case bytes.Equal(attributes, old.Attributes) && merged.Type == old.Type:
		return old, true, nil
	case len(attributes) > record.MaxAttributesBytes:
		return Entity{}, false, record.Fields{{Field: "attributes", Detail: fmt.Sprintf("would grow to %d bytes; the maximum is %d", len(attributes), record.MaxAttributesBytes)}}.Err()
	}
	latest, done, err := s.Write(ctx, workspace, Write{Op: ReplaceWrite, Entity: merged, Old: old})
	return latest.Entity, done, err
}

// Delete replaces an entity, if it exists, with a tombstone. Repeating the call changes
// nothing. The error has code Invalid if id is not valid.
func Delete(ctx context.Context, s Store, workspace, id string) error {
	if err := checkGivenID(id).Err(); err != nil {
		return err
	}
	_, _, err := s.Write(ctx, workspace, Write{Op: DeleteWrite, Entity: Entity{ID: id}})
	return err
}

// Erase removes an entity, if it exists, and stores a tombstone even if it does not. It returns
// the tombstone's ErasedAt. The caller must erase the entity's events created by then. Another
// call stores a later tombstone. The error has code Invalid if id is not valid.
func Erase(ctx context.Context, s Store, workspace, id string) (at record.Time, err error) {
	if err := checkGivenID(id).Err(); err != nil {
		return record.Time{}, err
	}
	latest, _, err := s.Write(ctx, workspace, Write{Op: EraseWrite, Entity: Entity{ID: id}})
	return latest.ErasedAt, err
}

// checkGivenID is like record.CheckID, but returns a different error for an empty id.
func checkGivenID(id string) (wrong record.Fields) {
	if id == "" {
		wrong.Add("id", "is required: the id of the entity")
		return wrong
	}
	wrong.Check("id", record.CheckID(id))
	return wrong
}
