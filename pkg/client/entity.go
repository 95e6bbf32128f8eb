package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// NewEntity is an entity to create, or for UpsertEntities a change of one.
type NewEntity struct {
	ID         string            `json:"id"`                  // "" for a UUIDv7 of the client
	Type       string            `json:"type,omitzero"`       // "" for the service's default, or to keep the type
	Attributes record.Attributes `json:"attributes,omitzero"` // a JSON object; nil for an empty one
}

// EntityQuery selects entities in order of id. Its zero value selects all.
type EntityQuery struct {
	Type   string // only entities of this type; "" for all
	Limit  int    // most entities of a page, 1 to 200; the service's default if it is 0
	Cursor string // where to begin: NextCursor of an earlier page; "" for the first
}

// ListEntities returns one page of entities. Each one costs one record.
func (c *Client) ListEntities(ctx context.Context, q EntityQuery) (Page[entity.Entity], error) {
	return getPage[entity.Entity](ctx, c, route{"list-entity", http.MethodGet, exports}, "/entity", values("type", q.Type, "cursor", q.Cursor), q.Limit)
}

// Entities returns an iterator over all entities that q selects, which gets them page
// by page. An error is the last element.
func (c *Client) Entities(ctx context.Context, q EntityQuery) iter.Seq2[entity.Entity, error] {
	return records(q.Cursor, func(cursor string) (Page[entity.Entity], error) {
		q.Cursor = cursor
		return c.ListEntities(ctx, q)
	})
}

// GetEntity returns one entity. If none has the id, errors.Is(err, ErrNotFound).
func (c *Client) GetEntity(ctx context.Context, id string) (entity.Entity, error) {
	return getOne[entity.Entity](ctx, c, route{"get-entity", http.MethodGet, exports}, "/entity/", id)
}

// CreateEntity creates an entity. If the service has an entity of this id with the
// same content, it returns that and false; with other content,
// errors.Is(err, ErrConflict).
func (c *Client) CreateEntity(ctx context.Context, e NewEntity) (stored entity.Entity, created bool, err error) {
	e.ID = cmp.Or(e.ID, newID())
	return create[entity.Entity](ctx, c, route{"create-entity", http.MethodPost, imports}, "/create_entity", e)
}

// UpdateEntity merges patch, a JSON object, into the attributes of an entity
// (RFC 7396: null removes one) and returns it as it is then.
func (c *Client) UpdateEntity(ctx context.Context, id string, patch record.Attributes) (stored entity.Entity, err error) {
	_, err = c.post(ctx, route{"update-entity", http.MethodPost, imports}, "/update_entity", struct {
		ID         string            `json:"id"`
		Attributes record.Attributes `json:"attributes"`
	}{id, patch}, &stored)
	return stored, err
}

// UpsertEntities creates up to MaxBatch entities of MaxBatchBytes in one import call,
// or merges each into the entity with its id: the attributes as UpdateEntity does, and
// the type, unless it is "". Results and errors are as those of CreateEvents. If the
// entities after the merge are large, the service returns only some of them: the
// Record of the others has only its ID.
func (c *Client) UpsertEntities(ctx context.Context, entities []NewEntity) ([]BatchResult[entity.Entity], error) {
	entities = slices.Clone(entities)
	for i := range entities {
		entities[i].ID = cmp.Or(entities[i].ID, newID())
	}
	k := call{route: route{"upsert-entities", http.MethodPost, imports}, path: "/upsert_entities"}
	results, err := sendBatch(ctx, c, k, "entities", entities, func(r api.BatchResult) *entity.Entity {
		return cmp.Or(r.Entity, &entity.Entity{})
	})
	for i := range results {
		if results[i].Err == nil {
			results[i].Record.ID = entities[i].ID
		}
	}
	return results, err
}

// DeleteEntity deletes an entity. It succeeds if no entity has that id.
func (c *Client) DeleteEntity(ctx context.Context, id string) error {
	var deleted api.Deleted
	_, err := c.post(ctx, route{"delete-entity", http.MethodPost, imports}, "/delete_entity", struct {
		ID string `json:"id"`
	}{id}, &deleted)
	return err
}
