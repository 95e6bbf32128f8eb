// Package entity holds the entity, one of the two kinds of records that
// clients put in and get out, and what a store of entities must do.
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

// DefaultType is the type of an entity that names none.
const DefaultType = "entity"

// Entity is a record that has a type and attributes and can change. Its JSON is
// the same in the API, in export files and in import files.
type Entity struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Attributes record.Attributes `json:"attributes"`
	CreatedAt  record.Time       `json:"created_at"`
	UpdatedAt  record.Time       `json:"updated_at"` // of the latest change; CreatedAt at first; each change is later than the one before
}

// AppendJSON appends the JSON of e, as its struct tags describe it, to b. The
// attributes are copied without validating them again. It fails if a string is
// not UTF-8 or the attributes are not an object.
func (e Entity) AppendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("id", e.ID)
	w.String("type", e.Type)
	w.Attributes("attributes", e.Attributes)
	w.Time("created_at", e.CreatedAt)
	w.Time("updated_at", e.UpdatedAt)
	return w.End()
}

// Columns returns the names of the members of an entity's JSON in their order,
// without attributes. They are the first columns of a CSV file.
func Columns() []string { return []string{"id", "type", "created_at", "updated_at"} }

// Parse decodes the JSON of a new entity: the body of a request or a line of an
// import file. Every member may be absent or null: then ID is "", Type is
// DefaultType and Attributes is {}. Members named in ignored, such as the times
// that an export has and the service sets, are skipped. The error is a
// *record.Error of kind Malformed or Invalid; that names every wrong member.
func Parse(text []byte, ignored ...string) (Entity, error) {
	e, err := ParseChange(text, ignored...)
	e.Type = cmp.Or(e.Type, DefaultType)
	return e, err
}

// ParseChange decodes the JSON of a change for Upsert. It is Parse, but an absent
// type is "".
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

// Query asks for a page of a workspace's entities in ascending byte order of id.
type Query struct {
	Type    string // only entities of this type; "" for all
	AfterID string // exclusive; "" starts at the first
	Limit   int    // most entities to return, at least 1
}

// Page is a part of a list.
type Page struct {
	Entities []Entity
	More     bool // there are entities after the last of these
}

// Store keeps entities by workspace and id. Implementations are safe for
// concurrent use. A workspace is a non-empty string without '#'.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Get returns an entity, or a *record.Error of kind NotFound.
	Get(ctx context.Context, workspace, id string) (Entity, error)

	// List returns the entities that q asks for. The page may be shorter than
	// q.Limit while More is true: a page's bytes are bounded too
	// (record.MaxPageBytes).
	List(ctx context.Context, workspace string, q Query) (Page, error)

	// Count returns how many entities q asks for, whatever its AfterID and
	// Limit, that were created at until or before.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Changes returns the latest change of each entity, if q asks for that, tombstones
	// included. An entity that was created again may have its tombstones in the list
	// too. There may be fewer than q.Limit while more is true, as in a page of List.
	Changes(ctx context.Context, workspace string, q record.SyncQuery) (changes []Change, more bool, err error)

	// Create stores e unless the workspace has an entity with its id. It
	// returns the entity that is stored afterwards and whether that is e. If an
	// entity with the id was deleted at e.UpdatedAt or later, e is stored with the
	// times that Entity.After returns.
	Create(ctx context.Context, workspace string, e Entity) (stored Entity, created bool, err error)

	// Replace stores e in place of the entity with its id if that is still was, and
	// reports whether it did. e has the ID and the CreatedAt of was.
	Replace(ctx context.Context, workspace string, was, e Entity) (replaced bool, err error)

	// Delete removes the entity with the id of was if that is still was, leaves its
	// tombstone for TombstoneAge, and reports whether it did.
	Delete(ctx context.Context, workspace string, was Entity, at record.Time) (deleted bool, err error)
}

// Create stamps e with now and stores it. It fails with kind Invalid if a field that
// a client sets is not valid. A repeat with the same type and attributes changes
// nothing and returns the stored entity with created false; with other content it
// fails with kind Conflict.
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

// validate returns an error of kind Invalid that names the fields that are not valid.
func (e Entity) validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(e.ID))
	wrong.Check("type", record.CheckName(e.Type))
	return wrong.Err()
}

// backOff bounds the random waits of retry after the first and the second write that
// fails because of another write. The third write is the last. The waits are
// long, because the more updates of one entity try again at once, the fewer succeed. If a
// call of the store takes 5 ms, 200 concurrent updates make about 2.5 replacements
// each, and 9 of 10 are applied within 5 seconds.
var backOff = [...]time.Duration{time.Second, 3 * time.Second}

// Update merges patch into the attributes of an entity (record.MergeAttributes)
// and returns the entity as it is then. UpdatedAt becomes now, but at least a
// millisecond later than before, unless the patch changes nothing: then nothing is
// written, and so a repeat leaves the entity as the first call did. It fails with kind Invalid if id or patch is not valid or the
// result exceeds record.MaxAttributesBytes, with kind NotFound, and with kind
// Unavailable if other writes of the entity keep coming between its reads and
// writes. In these cases it changes nothing.
func Update(ctx context.Context, s Store, workspace, id string, patch record.Attributes, now time.Time) (Entity, error) {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if patch == nil {
		wrong.Add("attributes", "is required: an object of the attributes to change, null for those to remove")
	}
	if err := wrong.Err(); err != nil {
		return Entity{}, err
	}
	var updated Entity
	err := retry(ctx, "update entity", id, func() (bool, error) {
		was, err := s.Get(ctx, workspace, id)
		if err != nil {
			return false, err
		}
		var changed bool
		if updated, changed, err = was.merge(Entity{Attributes: patch}, now); err != nil || !changed {
			return true, err
		}
		return s.Replace(ctx, workspace, was, updated)
	})
	if err != nil {
		return Entity{}, err
	}
	return updated, nil
}

// retry calls write until it reports that it is done or fails. A write is not done if
// another write of the entity came before it. op names the operation.
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

// merge returns e with the attributes of change merged into its own and with the type
// of change, unless that is "". If that changes nothing, it returns e itself and
// changed false.
func (e Entity) merge(change Entity, now time.Time) (merged Entity, changed bool, err error) {
	attributes, err := record.MergeAttributes(e.Attributes, change.Attributes)
	typ := cmp.Or(change.Type, e.Type)
	switch {
	case err != nil:
		return Entity{}, false, fmt.Errorf("update entity: %w", err)
	case bytes.Equal(attributes, e.Attributes) && typ == e.Type:
		return e, false, nil
	case len(attributes) > record.MaxAttributesBytes:
		return Entity{}, false, record.Fields{{Field: "attributes", Detail: fmt.Sprintf("would grow to %d bytes; at most %d are kept, so remove some", len(attributes), record.MaxAttributesBytes)}}.Err()
	}
	e.Type, e.Attributes = typ, attributes
	e.UpdatedAt = e.UpdatedAt.Next(now)
	return e, true, nil
}

// After returns e with the times of an entity that was created again after it was
// deleted: at least a millisecond later, even if the clock that stamped e lags.
func (e Entity) After(deletedAt record.Time) Entity {
	e.UpdatedAt = deletedAt.Next(e.UpdatedAt.Time())
	e.CreatedAt = e.UpdatedAt
	return e
}

// Delete removes an entity, if one with that id exists, and leaves its tombstone,
// stamped with now but later than the entity's latest change. A repeat changes
// nothing. It fails with kind Invalid if id is not valid, and with kind Unavailable
// like Update.
func Delete(ctx context.Context, s Store, workspace, id string, now time.Time) error {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if err := wrong.Err(); err != nil {
		return err
	}
	return retry(ctx, "delete entity", id, func() (bool, error) {
		was, err := s.Get(ctx, workspace, id)
		switch {
		case isNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		}
		return s.Delete(ctx, workspace, was, was.UpdatedAt.Next(now))
	})
}

// checkGivenID is record.CheckID for an id that names an entity that exists.
func checkGivenID(id string) error {
	if id == "" {
		return errors.New("is required: the id of the entity")
	}
	return record.CheckID(id)
}
