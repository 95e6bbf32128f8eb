// Package entity defines entities, one of the two kinds of records, and the interface for storing
// them.
package entity

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"sluice/pkg/record"
)

// DefaultType is the type of an entity that is created without one.
const DefaultType = "entity"

// Entity is a record that has a type and attributes and can change.
type Entity struct {
	ID         string
	Type       string
	Attributes record.Attributes
	Revision   int64 // 1 after the creation, and one more after each change, deletion and re-creation included
	CreatedAt  record.Time
	UpdatedAt  record.Time // time of the latest change, initially CreatedAt; never decreases, unless a clock was wrong
}

// Members appends to m the members of e, which are the same in the API, in export files and in
// import files.
func (e *Entity) Members(m []record.Member) []record.Member {
	return append(m,
		record.Member{Name: "id", Value: &e.ID, Check: record.CheckID},
		record.Member{Name: "type", Value: &e.Type, Check: record.CheckName},
		record.Member{Name: "attributes", Value: &e.Attributes},
		record.Member{Name: "revision", Value: &e.Revision, ByService: true},
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

	// Only in an upsert:
	Replace    bool   `json:"replace,omitzero"`     // take the place of what is stored, instead of being merged into it
	Deleted    bool   `json:"deleted,omitzero"`     // delete the entity; Type, Attributes and Replace then have no effect
	IfRevision *int64 `json:"if_revision,omitzero"` // the revision that the entity must have, 0 if it must not exist; nil for any
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

	// GetEach returns the latest changes of entities, tombstones included, keyed by id. ids may
	// contain duplicates. An entity that never existed is absent.
	GetEach(ctx context.Context, workspace string, ids []string) (map[string]Change, error)

	// List returns the entities that q selects. A page may have fewer than q.Limit, or none, even
	// if more follow: record.MaxPageBytes limits its size, and record.MaxPassedBytes limits how
	// many deleted entities it can skip. The error may be record.ErrCursor.
	List(ctx context.Context, workspace string, q Query) (record.Page[Entity], error)

	// Count returns how many of the entities that q selects have CreatedAt <= until. It ignores
	// q.Cursor and q.Limit.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Changes returns the latest change of each entity, even a tombstone, if q selects that change.
	// The page and the error are as in List, and the page says what is settled.
	Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[Change], error)

	// Write atomically replaces the entity's latest change with the one that w.Next returns, and
	// keeps a tombstone for TombstoneAge. It returns the entity's latest change after the call, and
	// whether the call stored it. If others change the entity meanwhile, Write calls w.Next again,
	// for as long as ctx allows. An error of w.Next is returned as it is. After another error of
	// code Unavailable, the change may have been stored.
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
	latest, created, err := s.Write(ctx, workspace, Creation(e))
	if err != nil {
		return Entity{}, false, err
	}
	if stored = latest.Entity; !created && !record.Same(stored.Members(nil), e.Members(nil)) {
		return Entity{}, false, &record.Error{Code: record.Conflict, Detail: fmt.Sprintf("another entity already has the id %q; change it with update_entity or upsert_entities, or choose another id", e.ID)}
	}
	return stored, created, nil
}

// Update merges patch into the attributes of an entity (record.MergeAttributes) and returns
// the result. It writes nothing if patch changes nothing, so repeating a call has no effect. when
// may be nil.
//
// The error has code Invalid if id or patch is invalid or the result exceeds
// record.MaxAttributesBytes, code NotFound if there is no such entity, and code Mismatch if
// the entity does not meet when. It has code Unavailable if it is unknown whether the update was
// stored, or if other requests kept changing the entity until ctx was done.
func Update(ctx context.Context, s Store, workspace, id string, patch record.Attributes, when *Condition) (Entity, error) {
	wrong := CheckGivenID(id)
	if patch == nil {
		wrong.Add("attributes", "is required: an object with the attributes to change, and null for each one to remove")
	}
	if err := wrong.Err(); err != nil {
		return Entity{}, err
	}
	latest, _, err := s.Write(ctx, workspace, Write{Op: UpdateWrite, ID: id, If: when, Edit: once(func(latest Change) (next Change, ok bool, err error) {
		if !latest.Live() {
			return Change{}, false, record.NotFoundError("entity", id)
		}
		merged, err := merge(latest.Entity, "", patch)
		return Change{Entity: merged, ErasedAt: latest.ErasedAt}, !same(merged, latest.Entity), err
	})})
	return latest.Entity, err
}

// merge applies patch to the attributes of old, and sets the type to typ unless typ is "".
func merge(old Entity, typ string, patch record.Attributes) (merged Entity, err error) {
	merged = old
	merged.Type = cmp.Or(typ, old.Type)
	if merged.Attributes, err = record.MergeAttributes(old.Attributes, patch); err != nil {
		return Entity{}, fmt.Errorf("update entity: %w", err)
	}
	if n := len(merged.Attributes); n > record.MaxAttributesBytes {
		return Entity{}, record.Fields{{Field: "attributes", Detail: fmt.Sprintf("would grow to %d bytes; the maximum is %d", n, record.MaxAttributesBytes)}}.Err()
	}
	return merged, nil
}

func same(a, b Entity) bool { return a.Type == b.Type && bytes.Equal(a.Attributes, b.Attributes) }

// Delete replaces an entity, if it exists, with a tombstone. Repeating the call changes
// nothing. The error has code Invalid if id is not valid, and code Mismatch if the entity does not
// meet when, which may be nil.
func Delete(ctx context.Context, s Store, workspace, id string, when *Condition) error {
	if err := CheckGivenID(id).Err(); err != nil {
		return err
	}
	_, _, err := s.Write(ctx, workspace, Deletion(id, when))
	return err
}

// CheckGivenID is like record.CheckID, but returns a different error for an empty id.
func CheckGivenID(id string) (wrong record.Fields) {
	if id == "" {
		wrong.Add("id", "is required: the id of the entity")
		return wrong
	}
	wrong.Check("id", record.CheckID(id))
	return wrong
}
