package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/index"
)

// Condition compares the value of an attribute. An [index.Number] is written as in JSON, such
// as 1e3.
type Condition = index.Condition

// FindQuery selects entities of a type by one indexed attribute, in order of its value, then
// of id. "sluice indexes" indexes attributes.
type FindQuery struct {
	Type       string
	Attribute  string
	Where      []Condition // one, or a lower and an upper bound
	Descending bool
	Limit      int    // per page, 1 to 200; 0 to leave it to the pacing
	Cursor     string // NextCursor of the page before; empty for the first
}

func (q FindQuery) values() url.Values {
	v := values("type", q.Type, "cursor", q.Cursor)
	for _, c := range q.Where {
		name := "attributes." + q.Attribute
		if c.Operator != index.Equal {
			name += "[" + string(c.Operator) + "]"
		}
		v.Set(name, c.Value)
	}
	if q.Descending {
		v.Set("order", "desc")
	}
	return v
}

// FindEntities returns one page. Each entity costs one record. An error with the code
// "not_indexed" names the attributes that are indexed, and one with the code "index_building"
// says how far the index is.
func (c *Client) FindEntities(ctx context.Context, q FindQuery) (Page[entity.Entity], error) {
	return getPage[entity.Entity](ctx, c, route{"list-entity", http.MethodGet, exports}, "/entity", q.values(), q.Limit)
}

// Found iterates over the entities of all pages, as [Client.Entities] does.
func (c *Client) Found(ctx context.Context, q FindQuery) iter.Seq2[entity.Entity, error] {
	return records(q.Cursor, func(cursor string) (Page[entity.Entity], error) {
		q.Cursor = cursor
		return c.FindEntities(ctx, q)
	})
}

// EntityIndexes returns the indexed attributes of the workspace.
func (c *Client) EntityIndexes(ctx context.Context) ([]api.EntityIndex, error) {
	var all api.List[api.EntityIndex]
	_, err := c.do(ctx, call{route: route{"list-entity-index", http.MethodGet, general}, path: "/entity_index"}, &all)
	return all.Data, err
}
