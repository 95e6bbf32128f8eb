package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sourceHeader is the header that says which records a response is about. Its value is the id of
// the service's data, a slash and the workspace. A client that keeps a copy or continues an import
// compares the value with that of earlier responses.
const sourceHeader = "Sluice-Source"

const (
	idMaxAge  = time.Minute     // a changed id takes effect within this time
	idRetry   = 5 * time.Second // time between a failed read and the next read
	idTimeout = time.Second
)

// ServiceID caches the id of the service's data. The id is read when first needed, and again when
// it is a minute old. ServiceID is safe for concurrent use.
type ServiceID struct {
	read func(context.Context) (string, error)

	mu     sync.Mutex
	id     string
	readAt time.Time     // time of the last read, by the wall clock
	maxAge time.Duration // the id is read again at this age
}

// NewServiceID returns a ServiceID that calls read to get the id.
func NewServiceID(read func(context.Context) (string, error)) *ServiceID {
	return &ServiceID{read: read}
}

// Get returns the id. If a read fails, Get returns an error and the last known id; until the next
// read, it returns that id without an error. Before the first successful read, the id is "".
func (s *ServiceID) Get(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Round(0) drops the monotonic clock, which stops while Lambda freezes the process.
	now := time.Now().Round(0)
	if age := now.Sub(s.readAt); age >= 0 && age < s.maxAge {
		return s.id, nil
	}
	ctx, cancel := context.WithTimeout(ctx, idTimeout)
	defer cancel()
	id, err := s.read(ctx)
	if err == nil && id == "" {
		err = errors.New("the service has no id")
	}
	s.readAt, s.maxAge = now, idRetry
	if err == nil {
		s.id, s.maxAge = id, idMaxAge
	}
	return s.id, err
}

func (s *service) setSource(ctx context.Context, r *request, workspace string) {
	if s.ServiceID == nil {
		return
	}
	var id string
	if id, r.log.sourceErr = s.ServiceID.Get(ctx); id != "" {
		r.source = id + "/" + workspace
	}
}
