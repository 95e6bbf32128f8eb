package ratelimit

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Middleware limits the rate of requests to an http.Handler. It charges each
// request, sets the rate limit headers on every response, and refuses requests
// that exceed a limit. Limiter and Request are required. A Middleware is safe for
// concurrent use if its fields do not change.
//
// net/http cancels the context of a request when the client closes its half of the
// connection, even if the client still waits for the response. Middleware therefore
// ignores that cancellation while it charges the request, and relies on the Store
// to limit the time of a charge.
type Middleware struct {
	Limiter *Limiter

	// Request describes r to the Limiter. If it returns an error, r is refused
	// with status 400 and is not charged. The rate limit headers then show the
	// rules of the returned Route.
	Request func(r *http.Request) (Request, error)

	// Refuse writes the response to a refused request. The status is 429 if a
	// limit is exceeded, 403 if the address is blocked, 503 if the counters
	// cannot be reached, and 400 if Request returned an error. err is the error
	// for 503 and 400, otherwise nil. The rate limit headers and, for 429 and
	// 503, Retry-After are already set. If Refuse is nil, the response is plain
	// text.
	Refuse func(w http.ResponseWriter, r *http.Request, d Decision, status int, err error)

	// Observe, if not nil, is called once per request, after the decision and
	// before the response is written.
	Observe func(r *http.Request, o Observation)
}

// Observation describes the decision about one request.
type Observation struct {
	Decision Decision
	Charged  bool          // whether the store was called
	Latency  time.Duration // duration of the call to the store; undefined if Charged is false
	Err      error         // why the request could not be charged, or nil
}

// Before returns a handler that charges each request. If the charge is admitted, the
// returned handler calls next.ServeHTTP.
func (m Middleware) Before(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if m.charge(w, r, req) {
			next.ServeHTTP(w, r)
		}
	})
}

// After returns a handler that calls next.ServeHTTP and buffers the response. The returned
// handler then charges the records that next reported with SetRecords, and writes the
// response only if the charge is admitted. A response with status 400 or above costs no
// records.
//
// The handler next must have no side effects, because its response may be discarded. It
// does not run if Limiter.Precheck refuses the request. If it panics, the panic reaches
// the caller, and the request is neither charged nor observed. A handler that may panic
// should therefore recover and respond with status 500.
func (m Middleware) After(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		d, refused := m.Limiter.Precheck(req)
		if refused && !d.Allowed {
			m.finish(w, r, Observation{Decision: d}, status(d, nil))
			return
		}
		held := heldResponses.Get().(*heldResponse)
		defer held.free()
		next.ServeHTTP(held, r)
		if refused { // ActionObserve allows the request and does not charge it
			m.finish(w, r, Observation{Decision: d}, http.StatusOK)
			held.writeTo(w)
			return
		}
		req.Records = held.records
		if held.status >= http.StatusBadRequest {
			req.Records = 0
		}
		if m.charge(w, r, req) {
			held.writeTo(w)
		}
	})
}

// limit returns a handler that calls serve for each request that can be charged. The
// handler refuses any other request with status 400.
func (m Middleware) limit(serve func(http.ResponseWriter, *http.Request, Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := m.Request(r)
		if err != nil {
			m.finish(w, r, Observation{Decision: m.Limiter.Uncharged(req), Err: err}, http.StatusBadRequest)
			return
		}
		serve(w, r, req)
	})
}

// charge charges req and reports whether the request may pass. If charge returns false,
// it has written the response.
func (m Middleware) charge(w http.ResponseWriter, r *http.Request, req Request) bool {
	start := time.Now()
	d, err := m.Limiter.Charge(context.WithoutCancel(r.Context()), req)
	o := Observation{Decision: d, Charged: !d.Local, Latency: time.Since(start), Err: err}
	m.finish(w, r, o, status(d, err))
	return status(d, err) == http.StatusOK
}

// status returns the status of a decision: 200 for a request that may pass.
func status(d Decision, err error) int {
	switch {
	case err != nil:
		return http.StatusServiceUnavailable
	case d.Blocked:
		return http.StatusForbidden
	case !d.Allowed:
		return http.StatusTooManyRequests
	default:
		return http.StatusOK
	}
}

// finish sets the rate limit headers and calls Observe. If status is not 200, finish then
// writes the refusal.
func (m Middleware) finish(w http.ResponseWriter, r *http.Request, o Observation, status int) {
	o.Decision.SetHeaders(w.Header())
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(RetryAfter))
	}
	if m.Observe != nil {
		m.Observe(r, o)
	}
	switch {
	case status == http.StatusOK:
	case m.Refuse != nil:
		m.Refuse(w, r, o.Decision, status, o.Err)
	default:
		http.Error(w, http.StatusText(status), status)
	}
}
