package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// storeTimeout is the time limit of an action, including its reads and writes of
// records. The timestamp of a write is set after the action has begun, so the write
// ends at most storeTimeout after its timestamp.
const storeTimeout = record.WriteTimeout

// action is what a route does, without rate limits and authentication. If the client is
// at fault, an action returns an *apiError or a *record.Error. Any other error is a fault
// of the service (500).
type action func(s *service, r *request) (response, error)

// request is the input of an action.
type request struct {
	*http.Request
	route     Route
	workspace string     // workspace of the caller; "" on public routes
	key       access.Key // API key of the caller; has no id if API keys are off; zero on public routes
	log       *logEntry
}

// endpoint is the handler of a route behind its rate limit. It also implements the
// hooks of ratelimit.Middleware.
type endpoint struct {
	*service
	route  Route
	action action
}

// ServeHTTP authenticates the caller, runs the action and writes its response.
//
// net/http cancels the context of a request when the client closes its half of the
// connection, even if the client still waits for the response. So the action ignores
// that cancellation and has a deadline of its own.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hr.Context()), storeTimeout)
	defer cancel()
	r := &request{Request: hr.WithContext(ctx), route: e.route, log: logEntryOf(hr)}
	buffer := buffers.Get().(*bytes.Buffer)
	defer release(buffer)
	out, err := e.respond(r, buffer)
	if err != nil {
		out = r.log.problem(err)
	}
	ratelimit.SetRecords(w, int64(out.records))
	r.log.write(w, out)
}

// respond returns the response to r. It may store the body of the response in the given
// buffer. If the action panics, respond returns the panic as an error.
func (e *endpoint) respond(r *request, buffer *bytes.Buffer) (out response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	if err := e.checkWay(r); err != nil {
		return response{}, err
	}
	if err := e.authenticate(r); err != nil {
		return response{}, err
	}
	if out, err = e.action(e.service, r); err != nil {
		return response{}, err
	}
	if err := out.encode(buffer); err != nil || e.route.Class != ratelimit.Export {
		return out, err
	}
	return out, out.compress(r, buffer)
}

// buffers holds response buffers for reuse.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the capacity, in bytes, of the largest buffer that is kept for reuse.
const maxBuffer = 1 << 20

func release(b *bytes.Buffer) {
	if b.Cap() <= maxBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// charge implements ratelimit.Middleware.Request.
func (e *endpoint) charge(r *http.Request) (ratelimit.Request, error) {
	log := logEntryOf(r)
	log.route, log.address = e.route.Name, e.clientAddress(r)
	if e.Overrides != nil {
		log.limitsErr = e.Overrides.Refresh(context.WithoutCancel(r.Context()))
	}
	c := ratelimit.Request{Route: e.route.limited()}
	var err error
	if c.Address, err = ratelimit.ParseAddress(log.address, e.IPv6Prefix); err != nil {
		return c, err
	}
	log.counted = c.Address
	if e.route.Class == ratelimit.Export {
		c.Asked = e.asked(r, c.Address)
	}
	return c, nil
}

// asked returns the maximum number of records in the response to an export: 1 if the
// route returns a record by id, the page length if it returns a list, or 0 if the page
// length is invalid.
func (e *endpoint) asked(r *http.Request, address string) int64 {
	if strings.Contains(e.route.Path, "{") {
		return 1
	}
	values, _ := url.ParseQuery(r.URL.RawQuery) // the error is ignored here, because the action reports it
	p := parameters{values: values}
	return int64(p.limit(e.maxPage(address)))
}

// refuse implements ratelimit.Middleware.Refuse.
func (e *endpoint) refuse(w http.ResponseWriter, r *http.Request, d ratelimit.Decision, status int, err error) {
	switch status {
	case http.StatusTooManyRequests:
		err = tooManyRequests(d)
	case http.StatusForbidden:
		err = addressBlocked()
	case http.StatusServiceUnavailable:
		err = countersUnavailable(err)
	default:
		err = e.invalidAddress()
	}
	log := logEntryOf(r)
	out := log.problem(err)
	if out.header.Get("Retry-After") != "" && e.isPage(r) {
		out = retryPage(r, out)
	}
	log.write(w, out)
}

// invalidAddress returns the response (400) for a client address that cannot be parsed.
// Such requests are not charged, because all of them would share one counter, although
// their clients are unrelated.
func (e *endpoint) invalidAddress() error {
	if e.ClientIPHeader != "" {
		return badRequest("invalid_client_address", "the header "+e.ClientIPHeader+" must end in the client's IP address; send the request through the proxy that sets it")
	}
	return badRequest("invalid_client_address", "the source address of the connection is not an IP address")
}

// observe implements ratelimit.Middleware.Observe.
func (e *endpoint) observe(r *http.Request, o ratelimit.Observation) { logEntryOf(r).limit = o }

// write sends the response and notes its status for the log.
func (l *logEntry) write(w http.ResponseWriter, out response) {
	l.status, l.records = out.status, out.records
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if len(out.raw) > 0 {
		header.Set("Content-Type", "application/json")
	}
	maps.Copy(header, out.header)
	if out.status != http.StatusNoContent && out.status != http.StatusNotModified {
		header.Set("Content-Length", strconv.Itoa(len(out.raw)))
	}
	w.WriteHeader(out.status)
	if len(out.raw) > 0 { // an empty Write would set a Content-Type
		w.Write(out.raw) //nolint:errcheck // the client may have disconnected
	}
}
