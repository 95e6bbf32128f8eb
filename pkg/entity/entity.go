// Package entity implements entities and defines the interface of their stores. Entities
// are one of the two kinds of records of the service.
package entity

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/pkg/record"
)

// DefaultType is the type of an entity that is created without a type.
const DefaultType = "entity"

// Entity is a record that has a type and attributes and can change. Its JSON form is the
// same in the API, in export files and in import files.
type Entity struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Attributes record.Attributes `json:"attributes"`
	CreatedAt  record.Time       `json:"created_at"`
	UpdatedAt  record.Time       `json:"updated_at"` // time of the latest change, initially CreatedAt; increases with every change
}

// AppendJSON appends e to b, in the JSON form that its struct tags describe. It copies
// the attributes without validating them again. It returns an error if a string is not
// UTF-8 or the attributes are not an object.
func (e Entity) AppendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("id", e.ID)
	w.String("type", e.Type)
	w.Attributes("attributes", e.Attributes)
	w.Time("created_at", e.CreatedAt)
	w.Time("updated_at", e.UpdatedAt)
	return w.End()
}

// Columns returns the names of all JSON members of an entity except attributes. The names
// are in the order in which the members are written. They are also the names of the first
// columns of a CSV file.
func Columns() []string { return []string{"id", "type", "created_at", "updated_at"} }

// Parse decodes the JSON of a new entity, which is the body of a request or a line of an
// import file. Every member may be absent or null. The defaults are an empty ID, the Type
// DefaultType and the Attributes {}. The parameter ignored lists the names of members that
// Parse skips. For example, imports skip the times in an exported file, because the service
// sets them. The error is a *record.Error of kind Malformed or Invalid. If its kind is
// Invalid, the error contains the names of all invalid members.
func Parse(text []byte, ignored ...string) (Entity, error) {
	e, err := ParseChange(text, ignored...)
	e.Type = cmp.Or(e.Type, DefaultType)
	return e, err
}

// ParseChange decodes the JSON of a change for Upsert. It is like Parse, but leaves Type
// empty if the type is absent.
func ParseChange(text []byte, ignored ...string) (Entity, error) {
	e := Entity{Attributes: record.Attributes("{}")}
	d := record.Decoders{
		"id":         record.Text(&e.ID, record.CheckID),
		"type":       record.Text(&e.Type, record.CheckName),
		"attributes": record.Object(&e.Attributes),
	}
	for _, name := range ignored {
		d[name] = nil
	}
	return e, d.Decode(text)
}

// Query requests a page of a workspace's entities in ascending byte order of id.
type Query struct {
	Type    string // only entities of this type; empty for all types
	AfterID string // only entities after this id; empty for the first page
	Limit   int    // maximum number of entities, at least 1
}

// Store keeps entities by workspace and id. Implementations are safe for
// concurrent use. A workspace is a non-empty string without '#'.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Get returns an entity, or a *record.Error of kind NotFound.
	Get(ctx context.Context, workspace, id string) (Entity, error)

	// List returns the entities that q selects. The page may have fewer than q.Limit
	// entities even if More is true, because the size of a page in bytes is limited too
	// (record.MaxPageBytes).
	List(ctx context.Context, workspace string, q Query) (record.Page[Entity], error)

	// Count returns the number of entities that q selects and that were created at or
	// before the given time. It ignores AfterID and Limit.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Changes returns the latest changes of entities that q selects, including
	// tombstones. If an entity was created again after its deletion, the list may also
	// contain its earlier tombstones. As in List, there may be fewer than q.Limit changes
	// even if More is true.
	Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[Change], error)

	// Create stores e if the workspace has no entity with the same id. It returns the
	// entity that is stored after the call, and reports whether the call stored it. If an
	// entity with this id was deleted at e.UpdatedAt or later, Create stores e with later
	// times (see Entity.After).
	Create(ctx context.Context, workspace string, e Entity) (stored Entity, created bool, err error)

	// Replace stores e in place of old. It does so only if the stored entity still equals
	// old. It reports whether it stored e. The two entities must have the same ID and the
	// same CreatedAt.
	Replace(ctx context.Context, workspace string, old, e Entity) (replaced bool, err error)

	// Delete removes an entity and keeps a tombstone for TombstoneAge. It does so only if
	// the stored entity still equals old. It reports whether it removed the entity.
	Delete(ctx context.Context, workspace string, old Entity, at record.Time) (deleted bool, err error)

	// Erase removes the entity with an id, if it exists, and stores its
	// Change.ErasedTombstone for TombstoneAge. The new tombstone replaces an earlier
	// tombstone.
	Erase(ctx context.Context, workspace, id string, now time.Time) (Change, error)
}

// Create sets the times of e to now and stores e. The error has kind Invalid if a field
// that a client sets is not valid. If an entity with the same id, type and attributes
// exists, Create changes nothing. It returns the stored entity, and created is false. If
// the existing entity with this id has another type or other attributes, the error has
// kind Conflict.
func Create(ctx context.Context, s Store, workspace string, e Entity, now time.Time) (stored Entity, created bool, err error) {
	if err := e.validate(); err != nil {
		return Entity{}, false, err
	}
	e.CreatedAt = record.TimeOf(now)
	e.UpdatedAt = e.CreatedAt
	stored, created, err = s.Create(ctx, workspace, e)
	if err != nil {
		return Entity{}, false, err
	}
	if !created && (stored.Type != e.Type || !record.SameAttributes(stored.Attributes, e.Attributes)) {
		return Entity{}, false, record.ConflictError("entity", e.ID)
	}
	return stored, created, nil
}

// validate returns nil if e is valid. Otherwise it returns an error of kind Invalid with the
// names of the invalid fields.
func (e Entity) validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(e.ID))
	wrong.Check("type", record.CheckName(e.Type))
	return wrong.Err()
}

// backOff holds the maximum waits between the attempts of the function retry. The waits
// are random. If another request makes the first or the second attempt fail, the function
// waits and tries again. The third attempt is the last. The waits are long, because
// concurrent updates of one entity make each other fail. If a call of the store takes 5
// ms, 200 concurrent updates make about 2.5 replacements each, and 9 of 10 updates are
// applied within 5 seconds.
var backOff = [...]time.Duration{time.Second, 3 * time.Second}

// Update merges patch into the attributes of an entity (record.MergeAttributes) and
// returns the updated entity. It sets UpdatedAt to now or to one millisecond after the
// previous UpdatedAt, whichever is later. If patch changes nothing, Update writes
// nothing. Repeating a call therefore has no effect.
//
// The error has kind Invalid if id or patch is not valid or the result exceeds
// record.MaxAttributesBytes. It has kind NotFound if the entity does not exist. It has
// kind Unavailable if every attempt fails because another request changes the entity
// between the read and the write of Update. After an error of kind Invalid or NotFound,
// the entity is unchanged. After an error of kind Unavailable, the update may have been
// stored.
func Update(ctx context.Context, s Store, workspace, id string, patch record.Attributes, now time.Time) (Entity, error) {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if patch == nil {
		wrong.Add("attributes", "is required: an object with the attributes to change, and null for each one to remove")
	}
	if err := wrong.Err(); err != nil {
		return Entity{}, err
	}
	var updated Entity
	err := retry(ctx, "update entity", id, func() (bool, error) {
		old, err := s.Get(ctx, workspace, id)
		if err != nil {
			return false, err
		}
		var changed bool
		if updated, changed, err = old.merge(Entity{Attributes: patch}, now); err != nil || !changed {
			return true, err
		}
		return s.Replace(ctx, workspace, old, updated)
	})
	if err != nil {
		return Entity{}, err
	}
	return updated, nil
}

// retry calls the function write at most three times. It stops when the function returns
// true or an error. If another request changed the entity first, the function must return
// false and no error. The parameter op is the name of the operation in errors.
func retry(ctx context.Context, op, id string, write func() (done bool, err error)) error {
	for try := 0; ; try++ {
		done, err := write()
		switch {
		case done || err != nil:
			return err
		case try == len(backOff):
			return &record.Error{Kind: record.Unavailable, Detail: fmt.Sprintf("other requests keep changing the entity %q; try again", id)}
		}
		select {
		case <-time.After(rand.N(backOff[try])):
		case <-ctx.Done():
			return record.UnavailableError(op, ctx.Err())
		}
	}
}

// merge merges change.Attributes into the attributes of e and returns the resulting entity.
// If change.Type is not empty, the result has that type. If nothing changes, merge returns
// e, and changed is false.
func (e Entity) merge(change Entity, now time.Time) (merged Entity, changed bool, err error) {
	attributes, err := record.MergeAttributes(e.Attributes, change.Attributes)
	typ := cmp.Or(change.Type, e.Type)
	switch {
	case err != nil:
		return Entity{}, false, fmt.Errorf("update entity: %w", err)
	case bytes.Equal(attributes, e.Attributes) && typ == e.Type:
		return e, false, nil
	case len(attributes) > record.MaxAttributesBytes:
		return Entity{}, false, record.Fields{{Field: "attributes", Detail: fmt.Sprintf("would grow to %d bytes; the maximum is %d", len(attributes), record.MaxAttributesBytes)}}.Err()
	}
	e.Type, e.Attributes = typ, attributes
	e.UpdatedAt = e.UpdatedAt.Next(now)
	return e, true, nil
}

// After returns e with CreatedAt and UpdatedAt at least a millisecond after deletedAt. It
// is for an entity that is created again after its deletion. Without After, a process
// whose clock is behind could create the entity with times before the deletion.
func (e Entity) After(deletedAt record.Time) Entity {
	e.UpdatedAt = deletedAt.Next(e.UpdatedAt.Time())
	e.CreatedAt = e.UpdatedAt
	return e
}

// Delete deletes the entity with an id, if it exists, and stores its tombstone. The time
// of the tombstone is now or one millisecond after the latest change of the entity,
// whichever is later. Repeating the call changes nothing. The error has kind Invalid if
// id is not valid, and kind Unavailable in the same case as in Update.
func Delete(ctx context.Context, s Store, workspace, id string, now time.Time) error {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if err := wrong.Err(); err != nil {
		return err
	}
	return retry(ctx, "delete entity", id, func() (bool, error) {
		old, err := s.Get(ctx, workspace, id)
		switch {
		case record.KindOf(err) == record.NotFound:
			return true, nil
		case err != nil:
			return false, err
		}
		return s.Delete(ctx, workspace, old, old.UpdatedAt.Next(now))
	})
}

// Erase removes the entity with the given id, if it exists, and stores a tombstone that
// is marked as erased. The caller must then erase the events of the entity that were
// created at or before the tombstone's ErasedAt. Repeating the call stores a later
// tombstone. The error has kind Invalid if id is not valid.
func Erase(ctx context.Context, s Store, workspace, id string, now time.Time) (Change, error) {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if err := wrong.Err(); err != nil {
		return Change{}, err
	}
	return s.Erase(ctx, workspace, id, now)
}

// checkGivenID is like record.CheckID, but has its own error for an empty id.
func checkGivenID(id string) error {
	if id == "" {
		return errors.New("is required: the id of the entity")
	}
	return record.CheckID(id)
}
