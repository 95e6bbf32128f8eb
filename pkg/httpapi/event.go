package httpapi

import (
	"context"
	"net/http"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

func listEvent(s *service, r *request) (response, error) {
	if r.query.Has("created_since") {
		return listEventChanges(s, r)
	}
	p := parseQuery(r, "limit", "cursor", "entity_id", "name", "from", "to", "order", "created_since", "include_deleted")
	if p.values.Has("include_deleted") {
		p.wrong.Add("include_deleted", "needs created_since")
	}
	q := event.Query{
		Limit:     p.limit(r.maxPage()),
		EntityID:  p.filter("entity_id", record.CheckID),
		Name:      p.filter("name", record.CheckName),
		From:      p.instant("from"),
		To:        p.instant("to"),
		Ascending: p.choice("order", "desc", "asc"),
	}
	if q.From != nil && q.To != nil && q.From.Compare(*q.To) > 0 {
		p.wrong.Add("from", "must not be later than to")
	}
	if q.Name != "" && q.EntityID != "" {
		p.unfit.Add("name", "cannot be combined with entity_id; give one, and filter by the other in your program")
	}
	q.Cursor = p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	if q.Name != "" {
		if err := s.eventNames(r); err != nil {
			return response{}, err
		}
	}
	page, err := s.stores.Events.List(r.Context(), r.workspace, q)
	return listResponse(r, p, page, err)
}

// eventNames fails unless the index of events by name is ready.
func (s *service) eventNames(r *request) error {
	set, err := s.indexes(r)
	if err != nil {
		return err
	}
	d, ok := set.EventNames(r.workspace)
	switch {
	case !ok || d.State == index.Removing:
		return badRequest("not_indexed", "events are not indexed by name; an operator can change that with \"sluice indexes add --events name\"")
	case d.State != index.Ready:
		return indexBuilding(d)
	}
	return nil
}

func getEvent(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	e, err := s.stores.Events.Get(r.Context(), r.workspace, id)
	return response{status: http.StatusOK, body: e, records: 1}, err
}

func createEvent(s *service, r *request) (response, error) {
	d, err := s.newEvent(r.body)
	if err != nil {
		return response{}, err
	}
	stored, created, err := event.Create(r.Context(), s.stores.Events, r.workspace, d)
	return createResponse(stored, created, err)
}

func createEvents(s *service, r *request) (response, error) {
	return importing[event.Draft]{
		noun: "event", plural: "events",
		read: func(element []byte) (string, event.Draft, error) {
			d, err := s.newEvent(element)
			return d.ID, d, err
		},
		store: func(ctx context.Context, _ string, drafts []event.Draft) (outcomes []outcome) {
			var failed error // an error of the store; the order of the events must still be right when the client repeats the batch
			for _, d := range drafts {
				if failed != nil {
					outcomes = append(outcomes, outcome{err: failed})
					continue
				}
				stored, created, err := event.Create(ctx, s.stores.Events, r.workspace, d)
				outcomes = append(outcomes, outcome{api.BatchResult{Status: createdStatus(created), Event: &stored}, err})
				if code := record.CodeOf(err); code != record.Conflict && code != record.Invalid { // otherwise, only this record is at fault
					failed = err
				}
			}
			return outcomes
		},
	}.run(s, r)
}

// newEvent decodes an event, and gives it an id if the body has none.
func (s *service) newEvent(body []byte) (d event.Draft, err error) {
	if d, err = event.Parse(body); err == nil && d.ID == "" {
		d.ID, err = newID()
	}
	d.KeepFor = time.Duration(s.EventRetentionDays) * 24 * time.Hour
	return d, err
}
