// Package httpapi is the service's HTTP API: the table of its routes and, for
// each, a handler of API Gateway HTTP API events (payload format 2.0) that
// limits, decodes, calls the domain and encodes. Every response, errors
// included, carries the rate limit headers.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
	"github.com/google/uuid"

	"sluice/pkg/access"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/ratelimit"
)

// storeTimeout bounds all that a request does with the record stores.
const storeTimeout = 5 * time.Second

// Stores are what routes work on. A handler needs only those of its route.
type Stores struct {
	Entities    entity.Store
	Events      event.Store
	ExportJobs  exportjob.Store
	ExportLinks exportjob.Links // to the files of export jobs
	Usage       ratelimit.UsageStore
	Dashboard   fs.FS  // the page, index.html, and its files
	OpenAPI     []byte // openapi.yaml
}

// Options tune a Handler. A route that is not public needs Access or AccessOff;
// all else has a default.
type Options struct {
	Access         *access.Authenticator // knows the access keys
	AccessOff      bool                  // lets anybody use every route, in access.DefaultWorkspace
	IPv6Prefix     int                   // bits that tell IPv6 clients apart; ratelimit.DefaultIPv6Prefix by default
	ClientIPHeader string                // the header that names the client, where a proxy of one's own sets it; "" for the source address
	Logger         *slog.Logger          // one line a request; slog.Default by default
	Service        string                // that line holds metrics of this service, in the embedded metric format; "" for none
	Now            func() time.Time      // the clock of record times and usage; time.Now by default
}

// Handler answers the requests of one route. It is safe for concurrent use.
type Handler struct {
	route   Route
	cost    *ratelimit.Route // of a request
	limiter *ratelimit.Limiter
	stores  Stores
	opts    Options
	adapter *httpadapter.HandlerAdapterV2
}

// NewHandler makes the handler of the route with that name. It fails when
// there is no such route, when a store that the route needs is missing, and
// when a route that needs an access key could not check one.
func NewHandler(route string, limiter *ratelimit.Limiter, stores Stores, opts Options) (*Handler, error) {
	r, ok := routeNamed(route)
	if !ok {
		return nil, fmt.Errorf("httpapi: there is no route %q", route)
	}
	if r.Scope == "" {
		return nil, fmt.Errorf("httpapi: the route %s declares no scope", route)
	}
	if r.Scope != access.Public && opts.Access == nil && !opts.AccessOff {
		return nil, fmt.Errorf("httpapi: the route %s needs access keys, and no table of them is given", route)
	}
	if limiter == nil {
		return nil, errors.New("httpapi: a limiter is required")
	}
	if !r.served(stores) {
		return nil, fmt.Errorf("httpapi: the route %s lacks a store", route)
	}
	if opts.IPv6Prefix == 0 {
		opts.IPv6Prefix = ratelimit.DefaultIPv6Prefix
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	h := &Handler{route: r, cost: ratelimit.NewRoute(r.Name, r.Class), limiter: limiter, stores: stores, opts: opts}
	h.adapter = httpadapter.NewV2(h)
	return h, nil
}

// invocation is what an event says beyond the HTTP request.
type invocation struct {
	requestID      string
	address        string // of the client, as the connection or the trusted header has it
	pathParameters map[string]string
	stagePath      string // what stands before the route's path: "" or "/" and the stage
	malformed      bool   // the event could not be made an HTTP request

	buffer *[]byte // to write a body into
	json   []byte  // the body of the response, in buffer, if it is not the adapter's
}

type invocationKey struct{}

// Invoke answers an API Gateway event. It is the function to give to
// lambda.Start. The error is always nil: whatever goes wrong is an HTTP
// response.
func (h *Handler) Invoke(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	inv := invocation{
		requestID:      ev.RequestContext.RequestID,
		address:        clientAddress(ev, h.opts.ClientIPHeader),
		pathParameters: ev.PathParameters,
	}
	// API Gateway hands over the path decoded; the adapter parses it as a URL.
	path := trimStage(ev)
	inv.stagePath = escapePath(strings.TrimSuffix(ev.RawPath, path))
	ev.RawPath = escapePath(path)
	resp, err := h.proxy(ctx, &inv, ev)
	if err == nil {
		return resp, nil
	}
	inv.malformed = true
	ev = events.APIGatewayV2HTTPRequest{RawPath: "/", Headers: ev.Headers, Cookies: ev.Cookies, RequestContext: ev.RequestContext}
	ev.RequestContext.DomainName = ""
	ev.RequestContext.HTTP.Method = http.MethodGet
	return h.proxy(ctx, &inv, ev)
}

// proxy has the adapter hand the event to ServeHTTP. Bodies that are JSON do
// not go through its writer, which would copy them twice more.
func (h *Handler) proxy(ctx context.Context, inv *invocation, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	inv.buffer = buffers.Get().(*[]byte)
	resp, err := h.adapter.ProxyWithContext(context.WithValue(ctx, invocationKey{}, inv), ev)
	if err == nil && len(inv.json) > 0 {
		resp.Body = string(inv.json)
	}
	if cap(*inv.buffer) <= maxBuffer {
		buffers.Put(inv.buffer)
	}
	return resp, err
}

// buffers are bodies that were sent.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the most bytes of a buffer that is kept.
const maxBuffer = 1 << 20

// request is what an action works on.
type request struct {
	*http.Request
	*invocation
	caller
	ctx    context.Context // in place of the http.Request's: it ends when the action has had its time
	values url.Values      // of the query, once it was read
	badURL error           // why it was not read whole
}

// Context hides that of http.Request.
func (r *request) Context() context.Context { return r.ctx }

// query is what the query says as far as it can be read; err if it cannot all be.
func (r *request) query() (values url.Values, err error) {
	if r.values == nil {
		r.values, r.badURL = url.ParseQuery(r.URL.RawQuery)
	}
	return r.values, r.badURL
}

// reply is what an action answers.
type reply struct {
	status  int
	header  http.Header // beyond the headers of every response; may be nil
	body    any         // JSON
	records int         // how many records the body shows
	encoded []byte      // the body as bytes: by encode, unless the action set it
	written bool        // by encode, and so JSON
}

// encode writes body as JSON into buffer, which it may replace by a larger one.
func (out *reply) encode(buffer *[]byte) error {
	if out.encoded != nil {
		return nil
	}
	text, err := appendJSON((*buffer)[:0], out.body)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	*buffer = append(text, '\n')
	out.encoded, out.written = *buffer, true
	return nil
}

// action does what a route is for, without regard to limits. Its error is an
// *apiError, a *record.Error, or a fault of the service.
type action func(h *Handler, r *request) (reply, error)

// commonHeader is that of every response, unless its reply has another.
var commonHeader = http.Header{
	"Content-Type":           {"application/json"},
	"Cache-Control":          {"no-store"},
	"X-Content-Type-Options": {"nosniff"},
}

// ServeHTTP implements http.Handler for requests that Invoke made.
func (h *Handler) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	start := time.Now()
	r := &request{Request: hr, ctx: hr.Context()}
	r.invocation, _ = r.ctx.Value(invocationKey{}).(*invocation)
	c, out, err := h.serve(r)
	if err != nil {
		out = h.problem(r, err)
	}
	header := w.Header()
	maps.Copy(header, commonHeader)
	if len(out.encoded) == 0 {
		header.Del("Content-Type")
	}
	maps.Copy(header, out.header)
	c.decision.SetHeaders(header)
	w.WriteHeader(out.status)
	if out.written {
		r.json = out.encoded
	} else {
		w.Write(out.encoded) //nolint:errcheck // the adapter's writer is a buffer
	}
	h.log(r, c, out, err, time.Since(start))
}

// charge is what became of a request's charge.
type charge struct {
	decision ratelimit.Decision
	made     bool          // the store was asked
	latency  time.Duration // of the store, if it was asked
	err      error         // the store could not tell
}

// serve lets r in, charges it and runs the route's action. Exports run before
// the charge, since their cost is the number of records they found; their reply
// is dropped when the charge does not go through. What is known to be exhausted
// is refused before anything is read, an access key included. A request that is
// not let in is charged like any other, so that guessing is limited.
func (h *Handler) serve(r *request) (charge, reply, error) {
	cost := ratelimit.Request{Route: h.cost}
	address, err := ratelimit.ParseAddress(r.address, h.opts.IPv6Prefix)
	if err != nil {
		return charge{decision: h.limiter.Uncharged(cost)}, reply{}, h.badAddress()
	}
	cost.Address = address
	export := h.route.Class == ratelimit.Export
	if export {
		cost.Asked = h.asked(r)
	}
	if d, refused := h.limiter.Precheck(cost); refused {
		return charge{decision: d}, reply{}, tooManyRequests(d)
	}

	var out reply
	err = h.authenticate(r)
	if err == nil && export {
		if out, err = h.act(r); err == nil {
			cost.Records = int64(out.records)
		}
	}
	c := h.charge(r.Context(), cost)
	switch {
	case c.err != nil:
		return c, reply{}, countersUnavailable(c.err)
	case !c.decision.Allowed:
		return c, reply{}, tooManyRequests(c.decision)
	case err == nil && !export:
		out, err = h.act(r)
	}
	return c, out, err
}

func (h *Handler) charge(ctx context.Context, cost ratelimit.Request) charge {
	start := time.Now()
	d, err := h.limiter.Charge(ctx, cost)
	return charge{decision: d, made: !d.Local, latency: time.Since(start), err: err}
}

// asked is the most records that the reply to an export can show: 1 for a
// record by id, the page length for a list, 0 if that cannot be read.
func (h *Handler) asked(r *request) int64 {
	if strings.Contains(h.route.Path, "{") {
		return 1
	}
	values, _ := r.query() // the action says what is wrong with it
	p := parameters{values: values}
	return int64(p.limit(h.maxPage()))
}

// clientAddress is the address of the client: that of the connection, or, where
// a header is trusted, the last one in it, which the nearest proxy has set.
func clientAddress(ev events.APIGatewayV2HTTPRequest, header string) string {
	if header == "" {
		return ev.RequestContext.HTTP.SourceIP
	}
	for name, value := range ev.Headers {
		if strings.EqualFold(name, header) {
			return strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:])
		}
	}
	return ""
}

// badAddress is a 400, and never a charge to an address that strangers share.
func (h *Handler) badAddress() error {
	if h.opts.ClientIPHeader != "" {
		return badRequest("invalid_client_address", "the header "+h.opts.ClientIPHeader+" must end in the client's IP address; send the request through the proxy that sets it")
	}
	return badRequest("invalid_client_address", "the source address of the connection is not an IP address")
}

// act runs the route's action within storeTimeout. A panic becomes an error.
func (h *Handler) act(r *request) (out reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	if r.malformed {
		return reply{}, badRequest("malformed_request", "the request's URL or body encoding cannot be read; percent-encode the path")
	}
	whole := r.ctx
	bounded, cancel := context.WithTimeout(whole, storeTimeout)
	defer func() { cancel(); r.ctx = whole }()
	r.ctx = bounded
	if out, err = h.route.action(h, r); err == nil {
		err = out.encode(r.buffer)
	}
	return out, err
}

// newID makes the id of a record whose client gave none: a UUIDv7, so that
// ids sort by creation (RFC 9562, section 5.7).
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

// maxPage is the longest page: more records could never pass the records rule.
func (h *Handler) maxPage() int {
	return int(min(maxPageLength, h.limiter.Limits().Records))
}

// pageOf is the reply that shows a page of a list.
func pageOf[T any](h *Handler, r *request, records []T, more bool, next cursor) (reply, error) {
	body := listBody[T]{Data: records}
	if body.Data == nil {
		body.Data = []T{}
	}
	out := reply{status: http.StatusOK, records: len(records)}
	if more {
		next.Route, next.Workspace = h.route.Name, r.workspace
		text, err := next.encode()
		if err != nil {
			return reply{}, err
		}
		body.NextCursor = &text
		query, _ := r.query()
		query.Set("cursor", text)
		out.header = http.Header{"Link": {fmt.Sprintf("<%s%s?%s>; rel=\"next\"", r.stagePath, r.URL.EscapedPath(), query.Encode())}}
	}
	out.body = body
	return out, nil
}

// listBody is the JSON of a list.
type listBody[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}
