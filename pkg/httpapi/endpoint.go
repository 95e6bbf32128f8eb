package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// storeTimeout limits authentication and, separately, the action. The body is read between the
// two, for as long as the server's ReadTimeout allows. A write gets its stamp after the action
// has begun, so the write ends at most storeTimeout after its stamp.
const storeTimeout = record.WriteTimeout

// action is what a route does, apart from rate limits and authentication. If the client is at
// fault, the error is an *apiError or a *record.Error. Any other error is a fault of the
// service (500). The response is ignored if there is an error.
type action func(s *service, r *request) (response, error)

// request is the state of an HTTP request. [endpoint.ServeHTTP] fills it in step by step.
type request struct {
	*http.Request
	id       string
	route    Route
	query    url.Values    // what could be parsed, even if queryErr is set
	queryErr error         // why the query cannot be parsed
	body     []byte        // decompressed
	buffer   *bytes.Buffer // for the body of the response

	address   string            // of the client, from the connection or the trusted header
	client    netip.Prefix      // the part of address that identifies the client
	subject   ratelimit.Subject // who is charged; zero if the address is invalid
	decision  ratelimit.Decision
	source    string     // the value of sourceHeader; "" if the caller is not authenticated
	workspace string     // of the caller; "" on public routes
	key       access.Key // of the caller; has no id if API keys are off; zero on public routes
	counted   access.Key // whose limits apply, see access.Decision

	log logEntry
}

type endpoint struct {
	*service
	route  Route
	action action
}

// ServeHTTP takes a request through all steps, in order. The result of the action is sent only if
// the rate limits allow it.
//
// On routes that need a key, a request is authenticated first: if its key is valid and has limits of
// its own, it is counted by the key, and otherwise by its address. A client that guesses keys is
// charged first instead, so that the limits also apply to guesses; if its key proves valid after all
// and is counted, it is charged too, and the result of that charge stands.
//
// An export is charged after its action, for the records that it found. If it is known to ask for
// more than a limit has left, it is refused before its action. Any other request is charged before
// its action, so that a refused import writes nothing.
//
// net/http cancels the context of a request when the client closes its half of the connection,
// although the client may still wait for the response. ServeHTTP ignores that cancellation, and
// gives the action a deadline of its own.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	ctx := context.WithoutCancel(hr.Context())
	r := e.begin(ctx, hr)
	defer e.end(ctx, w, r)

	err := e.identify(ctx, r)
	if err != nil {
		r.write(w, r.problem(err))
		return
	}
	authenticated, rejected := e.resolve(ctx, r)
	err = e.begun(ctx, r)
	if err == nil && !authenticated {
		rejected = e.authenticate(ctx, r, e.Access.Authenticate)
		if e.recount(r) {
			err = e.begun(ctx, r)
		}
	}
	if err != nil {
		r.write(w, r.problem(err))
		return
	}

	export := e.route.Class == ratelimit.Export
	var out response
	if err = rejected; err == nil {
		err = e.read(r)
	}
	if err == nil {
		out, err = e.act(ctx, r)
	}
	out = e.result(r, out, err)

	if export && !r.decision.Observed {
		if err := e.charge(ctx, r, out.records); err != nil {
			out = r.problem(err)
		}
	}
	r.write(w, out)
}

func (e *endpoint) begin(ctx context.Context, hr *http.Request) *request {
	r := &request{Request: hr, id: e.RequestID(hr), route: e.route, buffer: buffers.Get().(*bytes.Buffer)}
	r.log.begun = time.Now()
	r.query, r.queryErr = readQuery(hr.URL.RawQuery)
	if e.AccessOff {
		e.setSource(ctx, r, access.DefaultWorkspace)
	}
	return r
}

// end must be deferred. It always writes the log line, and responds with 500 if ServeHTTP
// panicked.
func (e *endpoint) end(ctx context.Context, w http.ResponseWriter, r *request) {
	if v := recover(); v != nil {
		r.decision = e.limiter.Uncharged(ratelimit.Route{Name: e.route.Name, Class: ratelimit.General})
		r.write(w, r.problem(panicked(v)))
	}
	release(r.buffer)
	if e.stores.Minute != nil && r.refused() {
		e.refusals.Add(r.subject.Identity, r.decision.Window)
	}
	e.logRequest(ctx, r)
	if e.Observe != nil {
		e.Observe(r.observed())
	}
}

// refused reports whether a limit or a block has refused the request.
func (r *request) refused() bool {
	return r.subject.Identity != "" && (r.log.status == http.StatusTooManyRequests || r.decision.Blocked)
}

// identify finds out which client sent the request, and refreshes the rows of limits.
func (e *endpoint) identify(ctx context.Context, r *request) (err error) {
	r.address = e.clientAddress(r.Request)
	r.log.limitsErr = e.Rows.Refresh(ctx)
	if r.client, err = ratelimit.ParseAddress(r.address, e.IPv6Prefix); err != nil {
		r.decision = e.limiter.Uncharged(e.route.limited())
		return e.invalidAddress()
	}
	return nil
}

// resolve finds out who is counted. On most routes that needs the API key, so the request is
// authenticated too; rejected says why the caller is rejected. If authenticated is false, it has to be
// done after the charge.
func (e *endpoint) resolve(ctx context.Context, r *request) (authenticated bool, rejected error) {
	r.subject = e.subject(ratelimit.Caller{Address: r.client})
	if e.AccessOff || e.route.Scope == access.Public || r.subject.Limits.Action == ratelimit.ActionBlock {
		return false, nil
	}
	if rejected = e.authenticate(ctx, r, e.precheckKey(r)); errors.Is(rejected, access.ErrGuessing) {
		return false, nil
	}
	e.recount(r)
	return true, rejected
}

// recount makes r count by its API key, if it has been verified and has limits of its own. It reports
// whether that changes who is counted.
func (e *endpoint) recount(r *request) bool {
	if r.key.ID == "" || e.route.Scope == access.Public {
		return false
	}
	before := r.subject.Identity
	r.subject = e.subject(ratelimit.Caller{Address: r.client, KeyID: r.counted.ID, Plan: r.counted.Plan, Used: r.key.ID})
	return r.subject.Identity != before
}

// subject resolves who is counted; see [ratelimit.Limiter.Subject].
func (s *service) subject(c ratelimit.Caller) ratelimit.Subject {
	return s.limiter.Subject(s.Rows.Value(), c)
}

// begun prechecks an export, and charges any other request.
func (e *endpoint) begun(ctx context.Context, r *request) error {
	if e.route.Class == ratelimit.Export {
		return e.precheck(r)
	}
	return e.charge(ctx, r, 0)
}

// precheck refuses an export from a blocked client, or one that is known to ask for more than a
// limit has left. If ActionObserve lets such an export pass, it must not be charged.
func (e *endpoint) precheck(r *request) error {
	d, refused := e.limiter.Precheck(ratelimit.Request{Subject: r.subject, Route: e.route.limited(), Records: r.maxRecords()})
	if !refused {
		return nil
	}
	r.decision = d
	return refusal(d, r.subject)
}

// maxRecords returns the maximum number of records in the response to an export: 1 if the path has
// an id, and otherwise the length of a page. It returns 0 if the query has an invalid limit.
func (r *request) maxRecords() int64 {
	if strings.Contains(r.route.Path, "{") {
		return 1
	}
	p := parameters{values: r.query}
	return int64(p.limit(r.maxPage()))
}

// charge ignores records unless the route is an export.
func (e *endpoint) charge(ctx context.Context, r *request, records int) error {
	begun := time.Now()
	d, err := e.limiter.Charge(ctx, ratelimit.Request{Subject: r.subject, Route: e.route.limited(), Records: int64(records)})
	r.decision = d
	r.log.charged, r.log.latency, r.log.chargeErr = !d.Local, time.Since(begun), err
	if err != nil {
		return countersUnavailable(err)
	}
	return refusal(d, r.subject)
}

// read reads the body of routes that take one. It rejects a query on POST and DELETE routes.
func (e *endpoint) read(r *request) (err error) {
	if e.route.Method == http.MethodPost || e.route.Method == http.MethodDelete {
		err = parseQuery(r).err()
	}
	if err == nil && e.route.body > 0 {
		r.body, err = readBody(r.Request, e.route.body)
	}
	return err
}

// act runs the action and encodes its response.
func (e *endpoint) act(ctx context.Context, r *request) (out response, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r.Request = r.WithContext(ctx)
	if out, err = e.action(e.service, r); err != nil {
		return response{}, err
	}
	err = out.encode(r.buffer)
	if err == nil {
		err = out.compress(r)
	}
	return out, err
}

// result returns out, or a problem if there is an error or out cannot be sent.
func (e *endpoint) result(r *request, out response, err error) response {
	if err != nil {
		out = r.problem(err)
	}
	if e.Fits != nil && !e.Fits(out.raw) {
		out = r.problem(unsendable(len(out.raw)))
	}
	return out
}

// recovered must be deferred. It turns a panic into an error and stores it in *err.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = panicked(v)
	}
}

func panicked(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// Buffers are reused because a list may take 150 KB.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the largest capacity, in bytes, of a buffer that is kept for reuse.
const maxBuffer = 1 << 20

func release(b *bytes.Buffer) {
	if b.Cap() <= maxBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

func (r *request) write(w http.ResponseWriter, out response) {
	r.log.status, r.log.records = out.status, out.records
	header := w.Header()
	r.decision.SetHeaders(header)
	if r.source != "" {
		header.Set(sourceHeader, r.source)
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if len(out.raw) > 0 {
		header.Set("Content-Type", "application/json")
	}
	vary := append(header["Vary"], out.header["Vary"]...) // a handler around this one may have set it
	maps.Copy(header, out.header)
	if vary != nil {
		header["Vary"] = vary
	}
	if out.download != nil {
		r.send(w, out.download)
		return
	}
	if out.status != http.StatusNoContent && out.status != http.StatusNotModified {
		header.Set("Content-Length", strconv.Itoa(len(out.raw)))
	}
	w.WriteHeader(out.status)
	if len(out.raw) > 0 { // an empty Write would set a Content-Type
		w.Write(out.raw) //nolint:errcheck // the client may have disconnected
	}
}
