package httpapi

import (
	"net/http"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func listEntity(h *Handler, r *request) (reply, error) {
	p := parseQuery(r, "limit", "cursor", "type")
	q := entity.Query{Limit: p.limit(h.maxPage()), Type: p.filter("type", record.CheckName)}
	q.AfterID = p.cursor(h, r, false).ID
	if err := p.err(); err != nil {
		return reply{}, err
	}
	page, err := h.stores.Entities.List(r.Context(), r.workspace, q)
	if err != nil {
		return reply{}, err
	}
	next := cursor{Filters: p.filters.Encode()}
	if n := len(page.Entities); n > 0 {
		next.ID = page.Entities[n-1].ID
	}
	return pageOf(h, r, page.Entities, page.More, next)
}

func getEntity(h *Handler, r *request) (reply, error) {
	id, err := recordID(r)
	if err != nil {
		return reply{}, err
	}
	e, err := h.stores.Entities.Get(r.Context(), r.workspace, id)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: e, records: 1}, nil
}

// recordID is the id in the path of a request for one record, which has no
// query.
func recordID(r *request) (string, error) {
	if err := parseQuery(r).err(); err != nil {
		return "", err
	}
	id := r.pathParameter("id")
	if err := record.CheckID(id); err != nil {
		return "", badRequest("invalid_id", "the id in the path "+err.Error())
	}
	return id, nil
}

func createEntity(h *Handler, r *request) (reply, error) {
	e := entity.Entity{Type: entity.DefaultType, Attributes: record.Attributes("{}")}
	var hasID bool
	err := decodeBody(r, maxBodyBytes, fields{
		{"id", text(&e.ID, &hasID)},
		{"type", text(&e.Type, nil)},
		{"attributes", attributes(&e.Attributes)},
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

func updateEntity(h *Handler, r *request) (reply, error) {
	var id string
	var patch record.Attributes
	err := decodeBody(r, maxBodyBytes, fields{{"id", text(&id, nil)}, {"attributes", attributes(&patch)}})
	if err != nil {
		return reply{}, err
	}
	stored, err := entity.Update(r.Context(), h.stores.Entities, r.workspace, id, patch, h.opts.Now())
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: stored}, nil
}

// deleted is the JSON of what is no longer there.
type deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"` // always true, also of what was not there before
}

func deleteEntity(h *Handler, r *request) (reply, error) {
	var id string
	if err := decodeBody(r, maxBodyBytes, fields{{"id", text(&id, nil)}}); err != nil {
		return reply{}, err
	}
	if err := entity.Delete(r.Context(), h.stores.Entities, r.workspace, id); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: deleted{ID: id, Deleted: true}}, nil
}
