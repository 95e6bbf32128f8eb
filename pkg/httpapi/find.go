package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/pkg/api"
	"sluice/pkg/entity"
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

// findEntity serves GET /entity with conditions. It sorts the entities by the attributes of an index.
func findEntity(s *service, r *request, names []string) (response, error) {
	if len(names) > maxConditions {
		return response{}, badRequest("invalid_parameter", fmt.Sprintf("a query has at most %d conditions on attributes", maxConditions))
	}
	p := parseQuery(r, append([]string{"limit", "cursor", "type", "order", "updated_since", "include_deleted"}, names...)...)
	first := record.Shorten(names[0])
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
	conditions := p.conditions(names)
	if err := p.err(); err != nil {
		return response{}, err
	}
	serving, err := s.serving(r, typ, conditions)
	if err != nil {
		return response{}, err
	}
	q.Declaration = p.chosen(serving)
	for i, c := range conditions {
		p.wrong.Check(names[i], q.Where(c))
	}
	q.Cursor = p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	found, err := s.stores.Finder.Find(r.Context(), r.workspace, q)
	return pageResponse(r, p, found, page[entity.Entity]{index: new(entityIndex(q.Declaration))}, err)
}

// conditions returns the conditions with these names, and checks those of each attribute: there may
// be one, or a lower and an upper bound. Equality must do for all attributes but one.
func (p *parameters) conditions(names []string) (conditions []index.Condition) {
	used := make(map[string]string) // condition names by attribute and bound, "lower" or "upper"
	compared := ""                  // the attribute that has another operator than equality
	for _, name := range names {
		c := index.Condition{Value: p.filter(name, func(string) error { return nil })}
		c.Attribute, c.Operator = index.Cut(strings.TrimPrefix(name, attributePrefix))
		conditions = append(conditions, c)
		if c.Operator != index.Equal && compared != "" && compared != c.Attribute {
			p.wrong.Add(name, "is a comparison of a second attribute; give a value for all attributes but one, and filter the others in your program")
			return nil
		}
		bounds := []string{"lower"}
		switch c.Operator {
		case index.Equal, index.Prefix:
			bounds = []string{"lower", "upper"}
		case index.Less, index.LessOrEqual:
			bounds = []string{"upper"}
		}
		if c.Operator != index.Equal {
			compared = c.Attribute
		}
		for _, bound := range bounds {
			if other := used[c.Attribute+"#"+bound]; other != "" {
				p.wrong.Add(name, "cannot be combined with "+other)
				break
			}
			used[c.Attribute+"#"+bound] = record.Shorten(name)
		}
	}
	return conditions
}

// chosen returns the most specific of the indexes, or the one that the cursor continues, and adds it
// to the filters: a list has the same order on all pages, even if another index becomes ready.
func (p *parameters) chosen(serving []index.Declaration) index.Declaration {
	if at, ok := decodeCursor(p.values.Get("cursor")); ok {
		for _, d := range serving {
			if p.filters.Set("index", d.Fields.String()); p.filters.Encode() == at.Filters {
				return d
			}
		}
	}
	p.filters.Set("index", serving[0].Fields.String())
	return serving[0]
}

// serving returns the ready indexes that can serve a query, the most specific first. It fails if
// there are none.
func (s *service) serving(r *request, typ string, conditions []index.Condition) (ready []index.Declaration, err error) {
	set, err := s.indexes(r)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(slices.Clone(set.Of(r.workspace, typ)), func(d index.Declaration) bool { return d.State == index.Removing })
	serving := index.Serving(all, conditions)
	for _, d := range serving {
		if d.State == index.Ready {
			ready = append(ready, d)
		}
	}
	switch {
	case len(ready) > 0:
		return ready, nil
	case len(serving) > 0:
		return nil, indexBuilding(serving[0])
	}
	return nil, notIndexed(typ, conditions, all)
}

func indexBuilding(d index.Declaration) error {
	return &apiError{
		status: http.StatusConflict, code: "index_building",
		detail: fmt.Sprintf("the index of %s is being built; %.0f %% is done; try again later", record.Shorten(d.Name()), 100*d.Done()),
	}
}

func notIndexed(typ string, conditions []index.Condition, all []index.Declaration) error {
	var attributes, indexes []string
	for _, c := range conditions {
		if name := strconv.Quote(record.Shorten(c.Attribute)); !slices.Contains(attributes, name) {
			attributes = append(attributes, name)
		}
	}
	several := len(attributes) > 1
	for _, d := range all {
		indexes = append(indexes, d.Fields.String())
		several = several || len(d.Fields.List()) > 1
	}
	typ = record.Shorten(typ)
	var detail string
	switch {
	case len(all) == 0:
		detail = fmt.Sprintf("the attribute %s of the type %q is not indexed; no attribute of this type is; an operator can add one with \"sluice indexes add\"", attributes[0], typ)
	case several:
		detail = fmt.Sprintf("no index of the type %q serves %s with these operators; there are indexes on: %s. An index on several attributes needs a value for each but the last that the query names, and always for the first", typ, strings.Join(attributes, " and "), strings.Join(indexes, ", "))
	default:
		detail = fmt.Sprintf("the attribute %s of the type %q is not indexed; those that are: %s", attributes[0], typ, strings.Join(indexes, ", "))
	}
	return badRequest("not_indexed", detail)
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
		body.data = append(body.data, entityIndex(d))
	}
	return response{status: http.StatusOK, body: body}, err
}

func entityIndex(d index.Declaration) api.EntityIndex {
	x := api.EntityIndex{Resource: record.Entity, Type: d.Type, State: string(d.State), Done: d.Done()}
	if d.OfEvents() {
		x.Resource = record.Event
	}
	for _, f := range d.Fields.List() {
		x.Attributes = append(x.Attributes, api.IndexAttribute{Name: f.Name, ValueType: string(f.ValueType), Fold: f.Fold})
	}
	return x
}
