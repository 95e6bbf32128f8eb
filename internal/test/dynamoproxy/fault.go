package dynamoproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

// Fault is what the proxy does with a call. The zero Fault forwards it unchanged.
type Fault struct {
	Delay time.Duration // before the call is forwarded
	Skip  bool          // the call is not forwarded; requires Drop or Error
	Drop  bool          // the connection is closed without a response
	Error string        // the response is this DynamoDB exception
}

// Values of Fault.Error.
const (
	InternalServerError = "InternalServerError"                    // status 500: the call may have been applied
	Throttled           = "ProvisionedThroughputExceededException" // status 400: the call has not been applied
	Conflict            = "TransactionConflictException"           // status 400: the call has not been applied
)

// SetFault sets the function that chooses a Fault for each call. With nil, there are no faults.
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
			// The call is forwarded even if the client has disconnected.
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
	io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+f.Error+`","message":"injected by a test"}`) //nolint:errcheck // the client may have disconnected
}

func hangUp(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return // an httptest.ResponseRecorder has no connection
	}
	if conn, _, err := hijacker.Hijack(); err == nil {
		conn.Close() //nolint:errcheck // the client must see a broken connection
	}
}
