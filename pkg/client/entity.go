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

// EntityQuery selects entities in order of id. Its zero value selects all of them.
type EntityQuery struct {
	Type   string // empty for all types
	Limit  int    // per page, 1 to 200; 0 to let the pacing decide
	Cursor string // NextCursor of the previous page; empty for the first page
}

// ListEntities returns one page. Each entity on it counts as one record toward the rate limit.
func (c *Client) ListEntities(ctx context.Context, q EntityQuery) (Page[entity.Entity], error) {
	return getPage[entity.Entity](ctx, c, route{"list-entity", http.MethodGet, classExport}, "/entity", values("type", q.Type, "cursor", q.Cursor), q.Limit)
}

// Entities iterates over the entities of all pages. It ends after the first error, which it
// yields with a zero entity.
func (c *Client) Entities(ctx context.Context, q EntityQuery) iter.Seq2[entity.Entity, error] {
	return records(q.Cursor, func(cursor string) (Page[entity.Entity], error) {
		q.Cursor = cursor
		return c.ListEntities(ctx, q)
	})
}

// GetEntity returns an entity, which counts as one record toward the rate limit. The error
// matches [ErrNotFound] if there is no entity with the id.
func (c *Client) GetEntity(ctx context.Context, id string) (entity.Entity, error) {
	return getOne[entity.Entity](ctx, c, route{"get-entity", http.MethodGet, classExport}, "/entity/", id)
}

// CreateEntity creates an entity and returns it as stored. If d has no ID, the client
// generates a UUIDv7. If an entity with the same id and content exists, it is returned, and
// created is false. The error matches [ErrConflict] if the id exists with different content.
func (c *Client) CreateEntity(ctx context.Context, d entity.Draft) (stored entity.Entity, created bool, err error) {
	d.ID = cmp.Or(d.ID, newID())
	return create[entity.Entity](ctx, c, route{"create-entity", http.MethodPost, classImport}, "/create_entity", d)
}

// UpdateEntity merges patch, a JSON object, into the attributes of an entity and returns the
// result. A null in patch removes an attribute (RFC 7396). The error matches [ErrNotFound] if
// there is no entity with the id.
func (c *Client) UpdateEntity(ctx context.Context, id string, patch record.Attributes) (stored entity.Entity, err error) {
	_, err = c.post(ctx, route{"update-entity", http.MethodPost, classImport}, "/update_entity", struct {
		ID         string            `json:"id"`
		Attributes record.Attributes `json:"attributes"`
	}{id, patch}, &stored)
	return stored, err
}

// UpsertEntities creates up to MaxBatch entities, of up to MaxBatchBytes in total, with one
// import request. If an entity already exists, UpsertEntities merges the new attributes into
// it, as UpdateEntity does, and replaces its type unless the new type is empty. A draft with
// Replace takes the entity's place instead, and one with Deleted deletes it.
//
// Results and errors are as in CreateEvents. If the stored entities are large, the service
// returns only some of them; for the rest, BatchResult.Record has only the ID. If a draft has an
// IfRevision, the error of its result may match [ErrRevisionMismatch] or [ErrUnknownOutcome].
func (c *Client) UpsertEntities(ctx context.Context, entities []entity.Draft) ([]BatchResult[entity.Entity], error) {
	entities = slices.Clone(entities)
	for i := range entities {
		entities[i].ID = cmp.Or(entities[i].ID, newID())
	}
	k := call{route: route{"upsert-entities", http.MethodPost, classImport}, path: "/upsert_entities"}
	b := batch[entity.Draft, entity.Entity]{
		member: "entities", records: entities,
		stored:      func(r api.BatchResult) *entity.Entity { return cmp.Or(r.Entity, &entity.Entity{}) },
		conditional: func(d entity.Draft) bool { return d.IfRevision != nil },
	}
	results, err := b.send(ctx, c, k)
	for i := range results {
		if results[i].Err == nil {
			results[i].Record.ID = entities[i].ID
		}
	}
	return results, err
}

// DeleteEntity deletes an entity, if it exists.
func (c *Client) DeleteEntity(ctx context.Context, id string) error {
	var deleted api.Deleted
	_, err := c.post(ctx, route{"delete-entity", http.MethodPost, classImport}, "/delete_entity", struct {
		ID string `json:"id"`
	}{id}, &deleted)
	return err
}
