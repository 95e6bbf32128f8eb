// Package entity holds the entity, one of the two kinds of records that
// clients put in and get out, and what a store of entities must do.
package entity

import (
	"context"
	"time"

	"sluice/pkg/record"
)

// DefaultType is the type of an entity that names none.
const DefaultType = "entity"

// Entity is a record that has a type and attributes and can change. Its JSON
// is its shape on the wire.
type Entity struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Attributes record.Attributes `json:"attributes"`
	CreatedAt  record.Time       `json:"created_at"`
	UpdatedAt  record.Time       `json:"updated_at"` // of the latest change; CreatedAt at first
}

// Validate checks the fields that a client sets. The error is a
// *record.Error of kind Invalid that names every wrong field.
func (e Entity) Validate() error {
	var wrong record.Fields
	wrong.Add("id", record.CheckID(e.ID))
	wrong.Add("type", record.CheckName(e.Type))
	return wrong.Err()
}

// Query asks for a page of a workspace's entities in ascending byte order of id.
type Query struct {
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
	// Create stores e unless the workspace has an entity with its id. It
	// returns the entity that is stored afterwards and whether that is e.
	Create(ctx context.Context, workspace string, e Entity) (stored Entity, created bool, err error)

	// Get returns an entity, or a *record.Error of kind NotFound.
	Get(ctx context.Context, workspace, id string) (Entity, error)

	// List returns the entities that q asks for. The page may be shorter than
	// q.Limit while More is true: a page's bytes are bounded too
	// (record.MaxPageBytes).
	List(ctx context.Context, workspace string, q Query) (Page, error)
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
