package httpapi

import (
	"net/http"

	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/erasurejob"
)

// eraseEntity deletes an entity and creates the job that erases its events. If the job cannot be
// created, eraseEntity returns an error although the entity is deleted, and the client must
// repeat the request.
func eraseEntity(s *service, r *request, id string) (response, error) {
	if err := r.require(access.Erase); err != nil {
		return response{}, err
	}
	j, err := erasurejob.Request(r.Context(), s.stores.Erasures, r.workspace, id)
	return response{status: http.StatusAccepted, body: api.Erasing{ID: j.ID, Status: j.Status}}, err
}

func getErasureJob(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	j, err := erasurejob.Get(r.Context(), s.stores.ErasureJobs, r.workspace, id, s.Now())
	return response{status: http.StatusOK, body: j}, err
}
