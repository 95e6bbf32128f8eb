package ratelimit

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
)

// Middleware limits http.Handlers: it charges each request, writes the rate
// limit headers on every response, and answers what is refused with 429 and
// what cannot be decided with 503, both with Retry-After. It is safe for
// concurrent use.
type Middleware struct {
	Limiter *Limiter

	// Request says what a request is charged as. An error is answered with
	// 400 and charged to nobody.
	Request func(r *http.Request) (Request, error)
}

// Before charges each request before next runs: next runs only if it passed.
// It suits requests whose cost is known beforehand.
func (m Middleware) Before(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if m.charge(w, r, req) {
			next.ServeHTTP(w, r)
		}
	})
}

// After runs next, holds its response back, and charges the records that next
// has reported by SetRecords: the response is sent only if the charge passed.
// Responses of 400 and above cost no records. next must be harmless to run in
// vain; it does not run when Precheck refuses the request.
func (m Middleware) After(next http.Handler) http.Handler {
	return m.limit(func(w http.ResponseWriter, r *http.Request, req Request) {
		if d, refused := m.Limiter.Precheck(req); refused {
			refuse(w, d, nil)
			return
		}
		held := &heldResponse{header: make(http.Header), status: http.StatusOK}
		next.ServeHTTP(held, r)
		if held.status < http.StatusBadRequest {
			req.Records = held.records
		}
		if m.charge(w, r, req) {
			maps.Copy(w.Header(), held.header)
			w.WriteHeader(held.status)
			w.Write(held.body.Bytes()) //nolint:errcheck // the client may have gone
		}
	})
}

// limit hands each request to serve with what it is charged as.
func (m Middleware) limit(serve func(http.ResponseWriter, *http.Request, Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := m.Request(r)
		if err != nil {
			if req.Route == nil {
				req.Route = NewRoute("", General)
			}
			d := m.Limiter.Uncharged(req)
			d.SetHeaders(w.Header())
			http.Error(w, "this request cannot be counted: "+err.Error(), http.StatusBadRequest)
			return
		}
		serve(w, r, req)
	})
}

// SetRecords reports how many records a response shows, to the After that
// runs the handler. It does nothing elsewhere.
func SetRecords(w http.ResponseWriter, n int64) {
	if held, ok := w.(*heldResponse); ok {
		held.records = n
	}
}

// charge charges req and writes the headers. It answers and returns false when
// the request must not pass.
func (m Middleware) charge(w http.ResponseWriter, r *http.Request, req Request) bool {
	d, err := m.Limiter.Charge(r.Context(), req)
	if !d.Allowed {
		refuse(w, d, err)
		return false
	}
	d.SetHeaders(w.Header())
	return true
}

func refuse(w http.ResponseWriter, d Decision, err error) {
	d.SetHeaders(w.Header())
	w.Header().Set("Retry-After", strconv.Itoa(RetryAfter))
	status := http.StatusTooManyRequests
	if err != nil {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, http.StatusText(status), status)
}

// heldResponse is a response that is not sent yet.
type heldResponse struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	records int64
}

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) WriteHeader(status int)      { h.status = status }
func (h *heldResponse) Write(b []byte) (int, error) { return h.body.Write(b) }
