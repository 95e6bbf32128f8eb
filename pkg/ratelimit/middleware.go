package ratelimit

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Middleware limits http.Handlers. It charges each request, sets the rate limit
// headers on every response, and refuses requests that must not pass. It is safe
// for concurrent use.
//
// A client that disconnects does not end the charge of its request: net/http
// cancels a request's context as soon as the client closes its sending half,
// though it still waits for the response. Stores set their own deadlines.
type Middleware struct {
	Limiter *Limiter

	// Request returns what to charge r as. If it fails, r is charged to nobody
	// and refused; the headers then are those of the returned Route.
	Request func(r *http.Request) (Request, error)

	// Refuse writes the response to a request that must not pass. The status is
	// 429 if a limit is reached, 503 with the error if the counters cannot be
	// reached, or 400 with the error if Request failed. The rate limit headers
	// are set before the call, and so is Retry-After for 429 and 503. If Refuse
	// is nil, the response is plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, d Decision, status int, err error)

	// Observe is called once per request, after its decision and before its
	// response is written. It may be nil.
	Observe func(r *http.Request, o Observation)
}

// Observation is what became of a request.
type Observation struct {
	Decision Decision
	Charged  bool          // the store was called
	Latency  time.Duration // of the charge, if Charged
	Err      error         // why the request could not be charged, or nil
}

// Before returns a handler that charges each request and runs next only if the
// charge is admitted. It suits requests whose cost is known beforehand.
func (m Middleware) Before(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if m.charge(w, r, req) {
			next.ServeHTTP(w, r)
		}
	})
}

// After returns a handler that runs next, holds its response back, charges the
// records that next reports with SetRecords, and writes the response only if the
// charge is admitted. A response with a status of 400 or above costs no records.
// As its response may be discarded, next must have no side effects. It does not
// run if Precheck refuses the request. If next panics, the request is neither
// charged nor observed.
func (m Middleware) After(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if d, refused := m.Limiter.Precheck(req); refused {
			m.refuse(w, r, Observation{Decision: d}, http.StatusTooManyRequests)
			return
		}
		held := newHeldResponse()
		defer held.free()
		next.ServeHTTP(held, r)
		req.Records = 0
		if held.status < http.StatusBadRequest {
			req.Records = held.records
		}
		if m.charge(w, r, req) {
			held.writeTo(w)
		}
	})
}

// SetRecords reports the number of records in a response that After holds back.
// It has no effect on other responses. Like http.ResponseController, it finds
// the response behind writers that have an Unwrap method.
func SetRecords(w http.ResponseWriter, n int64) {
	for {
		switch v := w.(type) {
		case *heldResponse:
			v.records = n
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return
		}
	}
}

// limit returns a handler that passes requests on to serve, with what to charge
// them as, and refuses those that cannot be charged.
func (m Middleware) limit(serve func(http.ResponseWriter, *http.Request, Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := m.Request(r)
		if err != nil {
			m.refuse(w, r, Observation{Decision: m.Limiter.Uncharged(req), Err: err}, http.StatusBadRequest)
			return
		}
		serve(w, r, req)
	})
}

// charge charges req and sets the rate limit headers. If the request must not
// pass, it writes the refusal and returns false.
func (m Middleware) charge(w http.ResponseWriter, r *http.Request, req Request) bool {
	start := time.Now()
	d, err := m.Limiter.Charge(context.WithoutCancel(r.Context()), req)
	o := Observation{Decision: d, Err: err}
	if !d.Local {
		o.Charged, o.Latency = true, time.Since(start)
	}
	switch {
	case err != nil:
		m.refuse(w, r, o, http.StatusServiceUnavailable)
	case !d.Allowed:
		m.refuse(w, r, o, http.StatusTooManyRequests)
	default:
		d.SetHeaders(w.Header())
		m.observe(r, o)
	}
	return d.Allowed
}

func (m Middleware) refuse(w http.ResponseWriter, r *http.Request, o Observation, status int) {
	o.Decision.SetHeaders(w.Header())
	if status != http.StatusBadRequest {
		w.Header().Set("Retry-After", strconv.Itoa(RetryAfter))
	}
	m.observe(r, o)
	switch {
	case m.Refuse != nil:
		m.Refuse(w, r, o.Decision, status, o.Err)
	case status == http.StatusBadRequest:
		http.Error(w, "cannot charge the request: "+o.Err.Error(), status)
	default:
		http.Error(w, http.StatusText(status), status)
	}
}

func (m Middleware) observe(r *http.Request, o Observation) {
	if m.Observe != nil {
		m.Observe(r, o)
	}
}

// heldResponse is a response that has not been sent yet.
type heldResponse struct {
	header  http.Header
	status  int // 0 until it is written
	body    bytes.Buffer
	records int64
}

// heldResponses holds responses for reuse: a list takes 150 KB otherwise.
var heldResponses = sync.Pool{New: func() any { return &heldResponse{header: make(http.Header)} }}

// maxPooledBody is the largest buffer that is kept for reuse, in bytes.
const maxPooledBody = 1 << 20

func newHeldResponse() *heldResponse { return heldResponses.Get().(*heldResponse) }

// free makes h available for reuse.
func (h *heldResponse) free() {
	if h.body.Cap() > maxPooledBody {
		return
	}
	clear(h.header)
	h.body.Reset()
	h.status, h.records = 0, 0
	heldResponses.Put(h)
}

// Header implements http.ResponseWriter.
func (h *heldResponse) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter. As in net/http, the first final
// status counts; informational responses are dropped.
func (h *heldResponse) WriteHeader(status int) {
	if h.status == 0 && status >= http.StatusOK {
		h.status = status
	}
}

// Write implements http.ResponseWriter. It never fails.
func (h *heldResponse) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

// writeTo writes the response to w, with the header names in the case in which
// they were stored. It sets Content-Length, as net/http sends bodies over 2 KB in
// chunks otherwise.
func (h *heldResponse) writeTo(w http.ResponseWriter) {
	header := w.Header()
	maps.Copy(header, h.header)
	if len(header["Content-Length"]) == 0 && h.body.Len() > 0 {
		header.Set("Content-Length", strconv.Itoa(h.body.Len()))
	}
	h.WriteHeader(http.StatusOK)
	w.WriteHeader(h.status)
	w.Write(h.body.Bytes()) //nolint:errcheck // the client may have gone
}
