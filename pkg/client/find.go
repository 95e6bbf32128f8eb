package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"sluice/pkg/api"
	"sluice/pkg/entity"
)

// Condition compares an attribute with a value.
type Condition struct {
	Attribute string
	Operator  string // gt, gte, lt, lte or, only for texts, prefix; "" for equal
	Value     string // a number is written as in JSON, such as 1e3
}

// FindQuery selects entities of a type by indexed attributes, in order of their values, then of id.
// The command "sluice indexes" chooses which attributes are indexed.
type FindQuery struct {
	Type       string
	Where      []Condition // at most 4: equality of all attributes but one, which may have any operator, or a lower and an upper bound
	Descending bool
	Limit      int    // per page, 1 to 200; 0 to let the pacing decide
	Cursor     string // NextCursor of the previous page; empty for the first page
}

// values returns an error if the service would read q as a different query.
func (q FindQuery) values() (url.Values, error) {
	v := values("type", q.Type, "cursor", q.Cursor)
	for _, c := range q.Where {
		name := "attributes." + c.Attribute
		if c.Operator != "" {
			name += "[" + c.Operator + "]"
		}
		if v.Has(name) {
			return nil, invalidWhere("Where has two conditions for " + name)
		}
		v.Set(name, c.Value)
	}
	if len(q.Where) == 0 {
		return nil, invalidWhere("Where needs a condition; Client.Entities lists all entities of a type")
	}
	if q.Descending {
		v.Set("order", "desc")
	}
	return v, nil
}

func invalidWhere(detail string) error {
	return &Error{Route: findRoute.name, Code: "invalid_parameter", Detail: detail}
}

var findRoute = route{"list-entity", http.MethodGet, classExport}

// FindEntities returns one page. Each entity on it counts as one record toward the rate limit. If
// q has no condition, or two with the same operator, FindEntities fails without sending a request.
// An error with the code "not_indexed" names the indexed attributes. An error with the code
// "index_building" says how much of the index is built.
func (c *Client) FindEntities(ctx context.Context, q FindQuery) (Page[entity.Entity], error) {
	v, err := q.values()
	if err != nil {
		return Page[entity.Entity]{}, err
	}
	return getPage[entity.Entity](ctx, c, findRoute, "/entity", v, q.Limit)
}

// Found iterates over the entities of all pages, as [Client.Entities] does.
func (c *Client) Found(ctx context.Context, q FindQuery) iter.Seq2[entity.Entity, error] {
	return records(q.Cursor, func(cursor string) (Page[entity.Entity], error) {
		q.Cursor = cursor
		return c.FindEntities(ctx, q)
	})
}

// IndexesRoute is the Try.Route of the requests that EntityIndexes sends.
const IndexesRoute = "list-entity-index"

// EntityIndexes returns the indexed attributes of the workspace.
func (c *Client) EntityIndexes(ctx context.Context) ([]api.EntityIndex, error) {
	var all api.List[api.EntityIndex]
	_, err := c.do(ctx, call{route: route{IndexesRoute, http.MethodGet, classGeneral}, path: "/entity_index"}, &required{"data", &all})
	return all.Data, err
}
