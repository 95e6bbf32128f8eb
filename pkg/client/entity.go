package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// NewEntity is an entity to create.
type NewEntity struct {
	ID         string            `json:"id"`                  // the client makes a UUIDv7 if it is ""
	Type       string            `json:"type,omitzero"`       // the service's default if it is ""
	Attributes record.Attributes `json:"attributes,omitzero"` // a JSON object; nil for an empty one
}

// EntityQuery asks for entities in order of id. Its zero value asks for all.
type EntityQuery struct {
	Type   string // only entities of this type; "" for all
	Limit  int    // most entities of a page, 1 to 200; the service's default if it is 0
	Cursor string // where to begin: NextCursor of an earlier page; "" for the first
}

func (q EntityQuery) values() url.Values {
	return values("type", q.Type, "cursor", q.Cursor, "limit", limitText(q.Limit))
}

// ListEntities gets one page of entities. Each one costs one record.
func (c *Client) ListEntities(ctx context.Context, q EntityQuery) (Page[entity.Entity], error) {
	return getPage[entity.Entity](ctx, c, route{"list-entity", http.MethodGet, exports}, "/entity", q.values(), q.Limit)
}

// Entities gets all entities that q asks for, page by page. An error ends it.
func (c *Client) Entities(ctx context.Context, q EntityQuery) iter.Seq2[entity.Entity, error] {
	return records(q.Cursor, func(cursor string) (Page[entity.Entity], error) {
		q.Cursor = cursor
		return c.ListEntities(ctx, q)
	})
}

// GetEntity gets one entity. errors.Is(err, ErrNotFound) tells that there is none.
func (c *Client) GetEntity(ctx context.Context, id string) (e entity.Entity, err error) {
	return e, c.getOne(ctx, route{"get-entity", http.MethodGet, exports}, "/entity/", id, &e)
}

// CreateEntity creates an entity. One that is there already with the same
// content comes back with created false; with other content
// errors.Is(err, ErrConflict).
func (c *Client) CreateEntity(ctx context.Context, e NewEntity) (stored entity.Entity, created bool, err error) {
	if e.ID == "" {
		if e.ID, err = newID(); err != nil {
			return entity.Entity{}, false, err
		}
	}
	status, err := c.post(ctx, route{"create-entity", http.MethodPost, imports}, "/create_entity", e, &stored)
	return stored, status == http.StatusCreated, err
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

// DeleteEntity deletes an entity. That there is none is not an error.
func (c *Client) DeleteEntity(ctx context.Context, id string) error {
	var deleted api.Deleted
	_, err := c.post(ctx, route{"delete-entity", http.MethodPost, imports}, "/delete_entity", struct {
		ID string `json:"id"`
	}{id}, &deleted)
	return err
}
