package httpapi

import (
	"context"
	"net/http"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func listEntity(s *service, r *request) (response, error) {
	if conditions := conditionNames(r.query); len(conditions) > 0 {
		return findEntity(s, r, conditions)
	}
	if r.query.Has("updated_since") {
		return listEntityChanges(s, r)
	}
	p := parseQuery(r, "limit", "cursor", "type", "updated_since", "include_deleted", "order")
	if p.values.Has("include_deleted") {
		p.wrong.Add("include_deleted", "needs updated_since")
	}
	if p.values.Has("order") {
		p.wrong.Add("order", "needs updated_since, or a condition such as attributes.email")
	}
	q := entity.Query{Limit: p.limit(r.maxPage()), Type: p.filter("type", record.CheckName)}
	q.Cursor = p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := s.stores.Entities.List(r.Context(), r.workspace, q)
	return listResponse(r, page, cursor{Filters: p.filters.Encode()}, err)
}

func getEntity(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	e, err := s.stores.Entities.Get(r.Context(), r.workspace, id)
	return response{status: http.StatusOK, body: e, records: 1}, err
}

// recordID returns the id in the path of r. It fails if r has a query.
func recordID(r *request) (string, error) {
	if err := parseQuery(r).err(); err != nil {
		return "", err
	}
	return pathID(r)
}

func pathID(r *request) (string, error) {
	id := r.PathValue("id")
	if err := record.CheckID(id); err != nil {
		return "", badRequest("invalid_id", "the id in the path "+err.Error())
	}
	return id, nil
}

func createEntity(s *service, r *request) (response, error) {
	d, err := newEntity(r.body)
	if err != nil {
		return response{}, err
	}
	stored, created, err := entity.Create(r.Context(), s.stores.Entities, r.workspace, d)
	return createResponse(stored, created, err)
}

// newEntity decodes an entity, and gives it an id if the body has none.
func newEntity(body []byte) (d entity.Draft, err error) {
	if d, err = entity.Parse(body); err == nil && d.ID == "" {
		d.ID, err = newID()
	}
	return d, err
}

func updateEntity(s *service, r *request) (response, error) {
	var id string
	var patch record.Attributes
	err := record.Decoders{"id": record.Text(&id, nil), "attributes": record.Object(&patch)}.Decode(r.body)
	if err != nil {
		return response{}, err
	}
	stored, err := entity.Update(r.Context(), s.stores.Entities, r.workspace, id, patch)
	return response{status: http.StatusOK, body: stored}, err
}

// upsertEntities creates up to MaxBatch entities, or merges new attributes into entities that
// already exist.
func upsertEntities(s *service, r *request) (response, error) {
	latest := make(map[string]*upserted)
	return importBatch(s, r, "entity", "entities", func(element []byte) (batchWrite, error) {
		d, err := newEntity(element)
		return batchWrite{id: d.ID, store: func(ctx context.Context) (api.BatchResult, error) {
			u := latest[d.ID]
			stored, created, err := entity.Upsert(ctx, s.stores.Entities, r.workspace, d, u.entity)
			if err == nil {
				u.entity = &stored
			}
			return api.BatchResult{Status: createdStatus(created), Entity: &stored}, err
		}}, err
	}, func(ctx context.Context, ids []string) error {
		found, err := s.stores.Entities.GetEach(ctx, r.workspace, ids)
		for _, id := range ids {
			latest[id] = new(upserted)
			if e, exists := found[id]; exists {
				latest[id].entity = &e
			}
		}
		return err
	})
}

// upserted is the last known state of an entity, either read before the batch or left by an
// earlier element with the same id.
type upserted struct {
	entity *entity.Entity // nil if it does not exist
}

func deleteEntity(s *service, r *request) (response, error) {
	var id string
	var events bool
	if err := (record.Decoders{"id": record.Text(&id, nil), "events": record.Boolean(&events)}).Decode(r.body); err != nil {
		return response{}, err
	}
	if events {
		return eraseEntity(s, r, id)
	}
	if err := entity.Delete(r.Context(), s.stores.Entities, r.workspace, id); err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, body: api.Deleted{ID: id, Deleted: true}}, nil
}
