package ratelimit

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Middleware limits http.Handlers. It charges each request, sets the rate limit
// headers on every response, and refuses requests that must not pass. It is safe
// for concurrent use.
//
// net/http cancels a request's context when the client closes its sending half,
// even if the client still waits for the response. Middleware therefore charges
// without that cancellation; stores bound the time of a charge.
type Middleware struct {
	Limiter *Limiter

	// Request returns what to charge r as. If it fails, r is refused without a
	// charge; the rate limit headers are those of the returned Route.
	Request func(r *http.Request) (Request, error)

	// Refuse writes the response to a request that must not pass, with status
	// 429 if a limit is reached, 403 if the address is blocked, 503 with the
	// error if the counters cannot be reached, or 400 with the error if Request
	// failed. The rate limit headers and, for 429 and 503, Retry-After are
	// already set. If Refuse is nil, the response is plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, d Decision, status int, err error)

	// Observe, if not nil, is called once per request, after its decision and
	// before its response is written.
	Observe func(r *http.Request, o Observation)
}

// Observation describes how a request was decided.
type Observation struct {
	Decision Decision
	Charged  bool          // the store was called
	Latency  time.Duration // of that call; meaningless if not Charged
	Err      error         // why the request could not be charged, or nil
}

// Before returns a handler that charges each request and runs next only if the
// charge is admitted.
func (m Middleware) Before(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if m.charge(w, r, req) {
			next.ServeHTTP(w, r)
		}
	})
}

// After returns a handler that runs next, holds its response back, charges the
// records that next reported with SetRecords, and writes the response only if
// the charge is admitted. A response with status 400 or above costs no records.
//
// next must have no side effects, because its response may be discarded. It does
// not run if Precheck refuses the request. If next panics, the panic passes
// through, and the request is neither charged nor observed: a next that may
// panic should recover and respond with status 500.
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
		if refused { // but observed, so it passes uncharged
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

// limit returns a handler that calls serve for requests that can be charged.
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

// charge charges req and reports whether it may pass. If not, the response has
// been written.
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

// finish sets the headers, calls Observe and, unless status is 200, refuses r.
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
