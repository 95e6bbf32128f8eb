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
	return listResponse(r, p, page, err)
}

func getEntity(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	e, err := s.stores.Entities.Get(r.Context(), r.workspace, id)
	return response{status: http.StatusOK, header: http.Header{"Etag": {etag(e.Revision)}}, body: e, records: 1}, err
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
	if err := r.unconditional(); err != nil {
		return response{}, err
	}
	d, err := withID(entity.Parse(r.body))
	if err != nil {
		return response{}, err
	}
	stored, created, err := entity.Create(r.Context(), s.stores.Entities, r.workspace, d)
	return createResponse(stored, created, err)
}

// withID gives d an id if it has none.
func withID(d entity.Draft, err error) (entity.Draft, error) {
	if err == nil && d.ID == "" {
		d.ID, err = newID()
	}
	return d, err
}

func updateEntity(s *service, r *request) (response, error) {
	var id string
	var patch record.Attributes
	var revision *int64
	err := record.Decoders{"id": record.Text(&id, nil), "attributes": record.Object(&patch), "if_revision": record.Whole(&revision)}.Decode(r.body)
	if err != nil {
		return response{}, err
	}
	when, err := r.condition(revision)
	if err != nil {
		return response{}, err
	}
	stored, err := entity.Update(r.Context(), s.stores.Entities, r.workspace, id, patch, when)
	return response{status: http.StatusOK, body: stored}, err
}

// upsertEntities creates, merges, replaces or deletes up to MaxBatch entities. The elements with one
// id are stored by one write.
func upsertEntities(s *service, r *request) (response, error) {
	if err := r.unconditional(); err != nil {
		return response{}, err
	}
	var read map[string]entity.Change
	return importing[entity.Draft]{
		noun: "entity", plural: "entities",
		read: func(element []byte) (string, entity.Draft, error) {
			d, err := withID(entity.ParseUpsert(element))
			return d.ID, d, err
		},
		prepare: func(ctx context.Context, ids []string) (err error) {
			read, err = s.stores.Entities.GetEach(ctx, r.workspace, ids)
			return err
		},
		store: func(ctx context.Context, id string, drafts []entity.Draft) []outcome {
			latest := read[id]
			u := entity.Upsert(ctx, s.stores.Entities, r.workspace, id, drafts, &latest)
			outcomes := make([]outcome, len(drafts))
			for i, err := range u.Errs {
				result := api.BatchResult{Status: createdStatus(i == u.Created), Deleted: u.Deleted}
				if !u.Deleted {
					result.Entity = &u.Entity
				}
				outcomes[i] = outcome{result, err}
			}
			return outcomes
		},
	}.run(s, r)
}

func deleteEntity(s *service, r *request) (response, error) {
	var id string
	var events bool
	var revision *int64
	err := record.Decoders{"id": record.Text(&id, nil), "events": record.Boolean(&events), "if_revision": record.Whole(&revision)}.Decode(r.body)
	if err != nil {
		return response{}, err
	}
	when, err := r.condition(revision)
	switch {
	case err != nil:
		return response{}, err
	case events && when != nil:
		return response{}, unfit("an erasure takes no condition, because it removes the events of every revision", "events", "cannot be combined with if_revision or If-Match")
	case events:
		return eraseEntity(s, r, id)
	}
	if err := entity.Delete(r.Context(), s.stores.Entities, r.workspace, id, when); err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, body: api.Deleted{ID: id, Deleted: true}}, nil
}
