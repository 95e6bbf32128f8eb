package httpapi

import (
	"net/http"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

func listEvent(h *Handler, r *request) (reply, error) {
	p := parseQuery(r, "limit", "cursor")
	q := event.Query{Limit: p.limit(h.maxPage())}
	if c := p.cursor(h, r, true); c.OccurredAt != nil {
		q.After = &event.Position{OccurredAt: *c.OccurredAt, ID: c.ID}
	}
	if err := p.err(); err != nil {
		return reply{}, err
	}
	page, err := h.stores.Events.List(r.Context(), r.workspace, q)
	if err != nil {
		return reply{}, err
	}
	var next cursor
	if n := len(page.Events); n > 0 {
		last := page.Events[n-1]
		next.ID, next.OccurredAt = last.ID, &last.OccurredAt
	}
	return pageOf(h, r, page.Events, page.More, next)
}

func createEvent(h *Handler, r *request) (reply, error) {
	e := event.New{Event: event.Event{Attributes: record.Attributes("{}")}}
	var hasID bool
	var entityID string
	var hasEntityID bool
	err := decodeBody(r, fields{
		"id":          text(&e.ID, &hasID),
		"name":        text(&e.Name, nil),
		"entity_id":   text(&entityID, &hasEntityID),
		"occurred_at": instant(&e.OccurredAt, &e.OccurredAtSet),
		"attributes":  attributes(&e.Attributes),
	})
	if err != nil {
		return reply{}, err
	}
	if hasEntityID && entityID == "" {
		return reply{}, record.Fields{{Field: "entity_id", Detail: record.CheckID("")}}.Err()
	}
	e.EntityID = event.OptionalID(entityID)
	if !hasID {
		if e.ID, err = newID(); err != nil {
			return reply{}, err
		}
	}
	stored, created, err := event.Create(r.Context(), h.stores.Events, r.workspace, e, h.opts.Now())
	return createdReply(stored, created, err)
}

// createdReply shows a record that a create left in the store: 201 when it is
// new, 200 when it was there.
func createdReply[T any](stored T, created bool, err error) (reply, error) {
	switch {
	case err != nil:
		return reply{}, err
	case created:
		return reply{status: http.StatusCreated, body: stored}, nil
	default:
		return reply{status: http.StatusOK, body: stored}, nil
	}
}
