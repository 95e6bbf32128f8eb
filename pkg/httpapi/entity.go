package httpapi

import (
	"net/http"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func listEntity(h *Handler, r *request) (reply, error) {
	p := parseQuery(r, "limit", "cursor")
	q := entity.Query{Limit: p.limit(h.maxPage()), AfterID: p.cursor(h, r, false).ID}
	if err := p.err(); err != nil {
		return reply{}, err
	}
	page, err := h.stores.Entities.List(r.Context(), r.workspace, q)
	if err != nil {
		return reply{}, err
	}
	var next cursor
	if n := len(page.Entities); n > 0 {
		next.ID = page.Entities[n-1].ID
	}
	return pageOf(h, r, page.Entities, page.More, next)
}

func getEntity(h *Handler, r *request) (reply, error) {
	if err := parseQuery(r).err(); err != nil {
		return reply{}, err
	}
	id := r.pathParameter("id")
	if detail := record.CheckID(id); detail != "" {
		return reply{}, badRequest("invalid_id", "the id in the path "+detail)
	}
	e, err := h.stores.Entities.Get(r.Context(), r.workspace, id)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: e, records: 1}, nil
}

func createEntity(h *Handler, r *request) (reply, error) {
	e := entity.Entity{Type: entity.DefaultType, Attributes: record.Attributes("{}")}
	var hasID bool
	err := decodeBody(r, fields{
		"id":         text(&e.ID, &hasID),
		"type":       text(&e.Type, nil),
		"attributes": attributes(&e.Attributes),
	})
	if err != nil {
		return reply{}, err
	}
	if !hasID {
		if e.ID, err = newID(); err != nil {
			return reply{}, err
		}
	}
	stored, created, err := entity.Create(r.Context(), h.stores.Entities, r.workspace, e, h.opts.Now())
	return createdReply(stored, created, err)
}
