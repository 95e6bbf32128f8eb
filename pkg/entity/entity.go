// Package entity holds the entity, one of the two kinds of records that
// clients put in and get out, and what a store of entities must do.
package entity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	UpdatedAt  record.Time       `json:"updated_at"` // of the latest change; CreatedAt at first
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
	e := Entity{Type: DefaultType, Attributes: record.Attributes("{}")}
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

// Validate checks the fields that a client sets. The error is a
// *record.Error of kind Invalid that names every wrong field.
func (e Entity) Validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(e.ID))
	wrong.Check("type", record.CheckName(e.Type))
	return wrong.Err()
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

	// Create stores e unless the workspace has an entity with its id. It
	// returns the entity that is stored afterwards and whether that is e.
	Create(ctx context.Context, workspace string, e Entity) (stored Entity, created bool, err error)

	// Update replaces an entity with what change returns for it, which keeps its
	// ID, Type and CreatedAt, and returns that. If change returns the entity as it
	// is, nothing is written. No other write comes between the read that change is
	// given and the replacement: if one does, change is called again with the
	// entity that it left, so concurrent updates lose nothing. If that happens too
	// often, the error is of kind Unavailable. An error of change is returned,
	// possibly wrapped. If no entity has the id, the error is a *record.Error of
	// kind NotFound. In all these cases nothing is written.
	Update(ctx context.Context, workspace, id string, change func(Entity) (Entity, error)) (stored Entity, err error)

	// Delete removes an entity. That there is none is not an error.
	Delete(ctx context.Context, workspace, id string) error
}

// Create validates e, stamps it with now and stores it. A repeat with the same
// type and attributes changes nothing and returns the stored entity with
// created false; with other content it fails with kind Conflict.
func Create(ctx context.Context, s Store, workspace string, e Entity, now time.Time) (stored Entity, created bool, err error) {
	if err := e.Validate(); err != nil {
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

// Update merges patch into the attributes of an entity (record.MergeAttributes)
// and returns the entity as it is then. UpdatedAt becomes now, unless the patch
// changes nothing: so a repeat leaves the entity as the first call did. It fails
// with kind Invalid, and changes nothing, when id or patch cannot be accepted
// or the result exceeds record.MaxAttributesBytes, and with kind NotFound.
func Update(ctx context.Context, s Store, workspace, id string, patch record.Attributes, now time.Time) (Entity, error) {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if patch == nil {
		wrong.Add("attributes", "is required: an object of the attributes to change, null for those to remove")
	}
	if err := wrong.Err(); err != nil {
		return Entity{}, err
	}
	return s.Update(ctx, workspace, id, func(e Entity) (Entity, error) {
		merged, err := record.MergeAttributes(e.Attributes, patch)
		switch {
		case err != nil:
			return Entity{}, fmt.Errorf("update entity: %w", err)
		case bytes.Equal(merged, e.Attributes):
			return e, nil
		case len(merged) > record.MaxAttributesBytes:
			return Entity{}, record.Fields{{Field: "attributes", Detail: fmt.Sprintf("would grow to %d bytes; at most %d are kept, so remove some", len(merged), record.MaxAttributesBytes)}}.Err()
		}
		e.Attributes = merged
		// A clock that lags behind another instance's must not turn time back.
		if updated := record.TimeOf(now); e.UpdatedAt.Compare(updated) < 0 {
			e.UpdatedAt = updated
		}
		return e, nil
	})
}

// Delete removes an entity, if there is one of that id: so it can be repeated.
// It fails with kind Invalid when id can be no entity's.
func Delete(ctx context.Context, s Store, workspace, id string) error {
	var wrong record.Fields
	wrong.Check("id", checkGivenID(id))
	if err := wrong.Err(); err != nil {
		return err
	}
	return s.Delete(ctx, workspace, id)
}

// checkGivenID is record.CheckID for an id that names an entity that exists.
func checkGivenID(id string) error {
	if id == "" {
		return errors.New("is required: the id of the entity")
	}
	return record.CheckID(id)
}
