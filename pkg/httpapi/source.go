package httpapi

import (
	"context"
	"errors"

	"sluice/pkg/snapshot"
)

// sourceHeader is the header that says which records a response is about. Its value is the id of
// the service's data, a slash and the workspace. A client that keeps a copy or continues an import
// compares the value with that of earlier responses.
const sourceHeader = "Sluice-Source"

// NewServiceID returns the cache for Options.ServiceID. read gets the id of the service's data.
func NewServiceID(read func(context.Context) (string, error)) *snapshot.Cache[string] {
	c, _ := snapshot.New(func(ctx context.Context) (string, error) { // the default configuration is valid
		id, err := read(ctx)
		if err == nil && id == "" {
			err = errors.New("the service has no id")
		}
		return id, err
	}, snapshot.Config{})
	return c
}

// setSource uses the last known id while the id cannot be read.
func (s *service) setSource(ctx context.Context, r *request, workspace string) {
	if s.ServiceID == nil {
		return
	}
	r.log.sourceErr = s.ServiceID.Refresh(ctx)
	if id := s.ServiceID.Value(); id != "" {
		r.source = id + "/" + workspace
	}
}
