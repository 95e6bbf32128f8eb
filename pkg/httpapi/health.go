package httpapi

import (
	"net/http"

	"sluice/pkg/record"
)

// getHealth responds with 200 if the stores of entities and events respond and the disk is
// writable, and otherwise with an error of kind record.Unavailable (503). It need not test the
// counters, because the request has already been charged.
//
// getHealth reads records that do not exist, in a workspace with a random name. That spreads the
// reads over all partitions, so that frequent checks do not use up one workspace's throughput.
func getHealth(s *service, r *request) (response, error) {
	if err := parseQuery(r).err(); err != nil {
		return response{}, err
	}
	if s.Writable != nil {
		if err := s.Writable(); err != nil {
			return response{}, record.UnavailableError("health", err)
		}
	}
	workspace, err := newID()
	if err != nil {
		return response{}, err
	}
	_, err = s.stores.Entities.Get(r.Context(), workspace, "health")
	if isAbsent(err) {
		_, err = s.stores.Events.Get(r.Context(), workspace, "health")
	}
	if !isAbsent(err) {
		return response{}, err
	}
	return response{status: http.StatusOK, body: map[string]string{"status": "ok"}}, nil
}

func isAbsent(err error) bool {
	return err == nil || record.CodeOf(err) == record.NotFound
}
