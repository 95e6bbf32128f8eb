package dynamoproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

// Fault is what happens to a call.
type Fault struct {
	Delay time.Duration // before it is passed on
	Skip  bool          // it is not passed on
	Drop  bool          // the connection is closed in place of an answer
	Error string        // it is answered with this exception of DynamoDB's
}

// Exceptions for Fault.Error.
const (
	InternalServerError = "InternalServerError"                    // a 500: the call may have been applied
	Throttled           = "ProvisionedThroughputExceededException" // a 400: it has not
)

// SetFault has fault decide what happens to each call from now on; nil lets
// all pass.
func (p *Proxy) SetFault(fault func(Call) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (f Fault) apply(w http.ResponseWriter, r *http.Request, engine http.Handler) {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			// The client gave up; what it sent is on its way all the same.
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
	}
	if f.Drop || f.Error != "" {
		if !f.Skip {
			engine.ServeHTTP(httptest.NewRecorder(), r)
		}
		if f.Drop {
			hangUp(w)
			return
		}
		f.answer(w)
		return
	}
	engine.ServeHTTP(w, r)
}

func (f Fault) answer(w http.ResponseWriter) {
	status := http.StatusBadRequest
	if f.Error == InternalServerError {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+f.Error+`","message":"because the test says so"}`) //nolint:errcheck // the client may have gone
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return // a recorder's answer goes nowhere anyway
	}
	if conn, _, err := hijacker.Hijack(); err == nil {
		conn.Close() //nolint:errcheck // that is the fault
	}
}
