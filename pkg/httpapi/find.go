package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/pkg/api"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

const attributePrefix = "attributes."

const maxConditions = 4

// conditionNames returns the sorted names of the query parameters that are conditions.
func conditionNames(query url.Values) (names []string) {
	for name := range query {
		if strings.HasPrefix(name, attributePrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// findEntity serves GET /entity with conditions. It sorts the entities by the indexed attribute.
func findEntity(s *service, r *request, conditions []string) (response, error) {
	if len(conditions) > maxConditions {
		return response{}, badRequest("invalid_parameter", fmt.Sprintf("a query has at most %d conditions on attributes", maxConditions))
	}
	p := parseQuery(r, append([]string{"limit", "cursor", "type", "order", "updated_since", "include_deleted"}, conditions...)...)
	first := record.Shorten(conditions[0])
	for _, name := range []string{"updated_since", "include_deleted"} {
		if p.values.Has(name) {
			p.wrong.Add(name, "cannot be combined with "+first)
		}
	}
	if !p.values.Has("type") {
		p.wrong.Add("type", "is required with "+first+": the type of the entities to find")
	}
	typ := p.filter("type", record.CheckName)
	q := index.Query{Limit: p.limit(r.maxPage()), Descending: p.choice("order", "asc", "desc")}
	attribute := p.attribute(conditions)
	if err := p.err(); err != nil {
		return response{}, err
	}
	var err error
	if q.Declaration, err = s.declared(r, typ, attribute); err != nil {
		return response{}, err
	}
	for _, name := range conditions {
		_, op := index.Cut(name)
		p.filter(name, func(value string) error { return q.Where(index.Condition{Operator: op, Value: value}) })
	}
	q.Cursor = p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := s.stores.Finder.Find(r.Context(), r.workspace, q)
	return listResponse(r, page, cursor{Filters: p.filters.Encode()}, err)
}

// attribute checks the conditions and returns the attribute that they test. There may be one
// condition, or a lower and an upper bound on the same attribute.
func (p *parameters) attribute(conditions []string) string {
	attribute, _ := index.Cut(strings.TrimPrefix(conditions[0], attributePrefix))
	used := make(map[string]string) // condition names by bound, "lower" or "upper"
	for _, name := range conditions {
		other, op := index.Cut(strings.TrimPrefix(name, attributePrefix))
		bound := "lower"
		switch {
		case other != attribute:
			p.wrong.Add(name, "is a second attribute; give one, and filter the others in your program")
			return ""
		case (op == index.Equal || op == index.Prefix) && len(conditions) > 1:
			p.wrong.Add(name, "cannot be combined with another condition")
		case op == index.Less || op == index.LessOrEqual:
			bound = "upper"
		}
		if used[bound] != "" {
			p.wrong.Add(name, "cannot be combined with "+used[bound])
		}
		used[bound] = record.Shorten(name)
	}
	return attribute
}

// declared returns the declaration of an attribute. It fails unless the index on it is ready.
func (s *service) declared(r *request, typ, attribute string) (index.Declaration, error) {
	set, err := s.indexes(r)
	if err != nil {
		return index.Declaration{}, err
	}
	var names []string
	for _, d := range set.Of(r.workspace, typ) {
		switch {
		case d.State == index.Removing:
		case d.Attribute != attribute:
			names = append(names, fmt.Sprintf("%s (%s)", d.Attribute, d.ValueType))
		case d.State == index.Ready:
			return d, nil
		default:
			return d, &apiError{
				status: http.StatusConflict, code: "index_building",
				detail: fmt.Sprintf("the index of %s is being built; %.0f %% is done; try again later", record.Shorten(d.Name()), 100*d.Done()),
			}
		}
	}
	detail := fmt.Sprintf("the attribute %q of the type %q is not indexed; ", record.Shorten(attribute), record.Shorten(typ))
	if len(names) == 0 {
		detail += "no attribute of this type is; an operator can add one with \"sluice indexes add\""
	} else {
		detail += "those that are: " + strings.Join(names, ", ")
	}
	return index.Declaration{}, badRequest("not_indexed", detail)
}

func (s *service) indexes(r *request) (index.Set, error) {
	refreshErr := s.stores.Indexes.Refresh(r.Context())
	set, err := s.stores.Indexes.At(s.Now())
	if err != nil {
		return set, cmp.Or(refreshErr, err)
	}
	return set, nil
}

func listEntityIndex(s *service, r *request) (response, error) {
	if err := parseQuery(r).err(); err != nil {
		return response{}, err
	}
	set, err := s.indexes(r)
	body := page[api.EntityIndex]{data: []api.EntityIndex{}}
	for _, d := range set.In(r.workspace) {
		body.data = append(body.data, api.EntityIndex{Type: d.Type, Attribute: d.Attribute, ValueType: string(d.ValueType), State: string(d.State), Done: d.Done()})
	}
	return response{status: http.StatusOK, body: body}, err
}
