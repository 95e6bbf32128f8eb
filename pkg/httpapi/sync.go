package httpapi

import (
	"net/http"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// listEntityChanges serves GET /entity with updated_since: entities sorted by their latest change.
func listEntityChanges(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor", "type", "updated_since", "include_deleted", "order")
	q := entity.ChangeQuery{
		Type:           p.filter("type", record.CheckName),
		IncludeDeleted: p.choice("include_deleted", "false", "true"),
	}
	p.needsDeleted("type", q.IncludeDeleted)
	p.sync(r, "updated_since", &q.SyncQuery)
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := entity.ListChanges(r.Context(), s.stores.Entities, r.workspace, q, s.Now())
	return syncResponse(r, p, q.SyncQuery, page, err)
}

// listEventChanges serves GET /event with created_since: events sorted by creation time.
func listEventChanges(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor", "entity_id", "created_since", "include_deleted", "order", "name", "from", "to")
	for _, name := range []string{"name", "from", "to"} {
		if p.values.Has(name) {
			p.unfit.Add(name, "cannot be combined with created_since")
		}
	}
	q := event.ChangeQuery{EntityID: p.filter("entity_id", record.CheckID)}
	p.needsDeleted("entity_id", p.choice("include_deleted", "false", "true"))
	p.sync(r, "created_since", &q.SyncQuery)
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := event.ListChanges(r.Context(), s.stores.Events, r.workspace, q)
	return syncResponse(r, p, q.SyncQuery, page, err)
}

// needsDeleted rejects a filter without include_deleted. The list of changes would otherwise omit
// records that no longer match the filter, and a client's copy would keep them.
func (p *parameters) needsDeleted(filter string, included bool) {
	if p.values.Has(filter) && !included {
		p.wrong.Add(filter, "needs include_deleted=true in a list of changes, which also returns, as deleted, each change that does not match, so that a copy drops what has left the filter; without "+filter+", the list has all changes")
	}
}

// sync reads the parameters that both lists of changes share, and stores them in q. The caller
// must read the filters first.
func (p *parameters) sync(r *request, since string, q *record.SyncQuery) {
	q.Limit = p.limit(r.maxPage())
	q.Descending = p.choice("order", "asc", "desc")
	from := p.instant(since)
	if from == nil {
		return
	}
	q.Since = *from
	c := p.cursor(r)
	q.Cursor, p.syncedUntil = c.Store, c.SyncedUntil
}

// syncResponse returns a page of a walk with its synced_until, unless it is newest first.
func syncResponse[T any](r *request, p *parameters, q record.SyncQuery, found record.Page[T], err error) (response, error) {
	if q.Descending || err != nil {
		return listResponse(r, p, found, err)
	}
	until := p.syncedUntil
	if until == nil {
		at, fixed := q.SyncedUntil(found.Next, found.Settled)
		if until = &at; fixed {
			p.syncedUntil = until
		}
	}
	return pageResponse(r, p, found, page[T]{syncedUntil: until}, nil)
}

func unfitParameters(fields record.Fields) error {
	return &apiError{status: http.StatusUnprocessableEntity, code: "invalid_combination", detail: "the query parameters cannot be combined: " + sentence(fields), fields: fields}
}
