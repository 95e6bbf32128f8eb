package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sourceHeader says which records a response is about: the id of the service's data, '/' and
// the workspace. A client that keeps a copy, or continues an import, compares it with that of
// earlier responses.
const sourceHeader = "Sluice-Source"

const (
	idMaxAge  = time.Minute     // until a changed id takes effect
	idRetry   = 5 * time.Second // from a failed attempt to the next
	idTimeout = time.Second
)

// ServiceID is the id of the service's data. It is read when first needed, and again when it
// is a minute old. It is safe for concurrent use.
type ServiceID struct {
	read func(context.Context) (string, error)

	mu     sync.Mutex
	id     string
	readAt time.Time     // on the wall clock
	maxAge time.Duration // from readAt to the next read
}

// NewServiceID returns a ServiceID that calls read for the id.
func NewServiceID(read func(context.Context) (string, error)) *ServiceID {
	return &ServiceID{read: read}
}

// Get returns the id. If it cannot be read, Get returns an error, once per attempt, and the
// last known id, which is "" before the first successful read.
func (s *ServiceID) Get(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The monotonic clock stops while Lambda freezes the process.
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
