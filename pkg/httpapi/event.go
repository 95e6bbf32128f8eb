package httpapi

import (
	"net/http"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

func listEvent(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor", "entity_id", "from", "to", "order")
	q := event.Query{
		Limit:     p.limit(s.maxPage()),
		EntityID:  event.OptionalID(p.filter("entity_id", record.CheckID)),
		From:      p.instant("from"),
		To:        p.instant("to"),
		Ascending: p.ascending(),
	}
	if q.From != nil && q.To != nil && q.From.Compare(*q.To) > 0 {
		p.wrong.Add("from", "is later than to")
	}
	if c := p.cursor(r, true); c.OccurredAt != nil {
		q.After = &event.Position{OccurredAt: *c.OccurredAt, ID: c.ID}
	}
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := s.stores.Events.List(r.Context(), r.workspace, q)
	if err != nil {
		return response{}, err
	}
	next := cursor{Filters: p.filters.Encode()}
	if n := len(page.Events); n > 0 {
		last := page.Events[n-1]
		next.ID, next.OccurredAt = last.ID, &last.OccurredAt
	}
	return listResponse(r, page.Events, page.More, next)
}

func getEvent(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	e, err := s.stores.Events.Get(r.Context(), r.workspace, id)
	if err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, body: e, records: 1}, nil
}

func createEvent(s *service, r *request) (response, error) {
	e, err := readEvent(func(f fields) error { return decodeBody(r, maxBodyBytes, f) })
	if err != nil {
		return response{}, err
	}
	stored, created, err := event.Create(r.Context(), s.stores.Events, r.workspace, e, s.Now())
	return createResponse(stored, created, err)
}

// readEvent returns the event whose members decode reads.
func readEvent(decode func(fields) error) (event.New, error) {
	e := event.New{Event: event.Event{Attributes: record.Attributes("{}")}}
	var entityID string
	var hasID, hasEntityID bool
	err := decode(fields{
		{"id", text(&e.ID, &hasID)},
		{"name", text(&e.Name, nil)},
		{"entity_id", text(&entityID, &hasEntityID)},
		{"occurred_at", instant(&e.OccurredAt, &e.OccurredAtSet)},
		{"attributes", attributes(&e.Attributes)},
	})
	if err != nil {
		return event.New{}, err
	}
	if hasEntityID && entityID == "" {
		return event.New{}, record.Fields{{Field: "entity_id", Detail: record.CheckID("").Error()}}.Err()
	}
	e.EntityID = event.OptionalID(entityID)
	if !hasID {
		if e.ID, err = newID(); err != nil {
			return event.New{}, err
		}
	}
	return e, nil
}
