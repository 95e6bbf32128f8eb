package httpapi

import (
	"errors"
	"net/http"

	"sluice/pkg/record"
)

// getHealth reports that the process is up and that the stores respond: the
// counters, since the request has been charged, entities and events. It returns
// an error of the kind record.Unavailable, a 503, if a store does not respond.
//
// It looks for records in a workspace with a random name. These do not exist, but
// the reads are spread over all partitions of a table, so that many clients that
// check the service take nothing from the workspaces.
func getHealth(s *service, r *request) (response, error) {
	if err := parseQuery(r).err(); err != nil {
		return response{}, err
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

// isAbsent reports whether err is nil or says that a record does not exist.
func isAbsent(err error) bool {
	var known *record.Error
	return err == nil || errors.As(err, &known) && known.Kind == record.NotFound
}
