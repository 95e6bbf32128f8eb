// Package httpapi is the HTTP API as plain net/http handlers: a route table and one handler
// per route. Every response, errors included, carries the rate limit headers.
//
// [API] finds the route of a request, and endpoint.ServeHTTP (endpoint.go) takes the request
// through all steps. One of them is the route's action (entity.go, event.go, …).
package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/snapshot"
)

// Stores holds the data that the routes serve. A function needs only the fields that its routes
// use; the other fields may be zero.
type Stores struct {
	Entities      entity.Store
	Finder        index.Finder       // searches the same entities
	Indexes       index.Declarations // the indexes that Entities and Finder use
	Events        event.Store
	Erasures      erasurejob.Requester
	ErasureJobs   job.Store
	ExportJobs    job.Store
	ExportLinks   exportjob.Links     // creates download links for export files
	ExportFiles   exportjob.Downloads // nil if links lead elsewhere
	ExportDeleter exportjob.Deleter
	Usage         ratelimit.UsageStore
	Minute        ratelimit.MinuteStore // nil if other processes serve requests too
	Keys          access.Manager        // for the routes that manage keys
	LimitRows     ratelimit.RowManager  // for the routes that manage limits, and reads what was just written
	Declarations  index.Store           // for the routes that declare indexes
	Audit         audit.Store
	Dashboard     map[string]func() []byte // index.html and its assets, each read when called, by path below /dashboard
	OpenAPI       []byte                   // contents of openapi.yaml

	BatchWriters int // how many records of a batch are written concurrently; the constant BatchWriters by default
}

// Options configure an [API]. All fields are optional, but a route that is not public needs Access
// or AccessOff.
type Options struct {
	Config       // the zero value means the defaults
	Access       *access.Authenticator
	Rows         *ratelimit.RowCache        // refreshed by each request; nil if there are no rows
	ServiceID    *snapshot.Cache[string]    // for the header Sluice-Source, see NewServiceID; nil to omit the header
	LoopbackOnly bool                       // rejects requests whose Host is not a loopback name, to prevent DNS rebinding
	RequestID    func(*http.Request) string // id for logs and problems; a new UUID by default
	Writable     func() error               // returns an error if the disk is not writable; unset if the stores are not on a local disk
	Fits         func(body []byte) bool     // reports whether a response with this body can be sent; unset if every response can
	Observe      func(Observed)             // called after each request; may be unset
	LogsConsole  string                     // URL of CloudWatch Logs Insights; "" if the log is elsewhere
	Logger       *slog.Logger               // gets one line per request; slog.Default by default
	Now          func() time.Time           // for record times and usage; time.Now by default
}

// API serves the routes of the service. It is safe for concurrent use.
type API struct {
	service  service
	mux      *http.ServeMux // the paths and, under "/", the default route
	fallback http.Handler   // the default route
}

// service is the state that all routes share.
type service struct {
	limiter   *ratelimit.Limiter
	stores    Stores
	refusals  ratelimit.Refusals               // only with Stores.Minute
	dashboard atomic.Pointer[map[string]*file] // Stores.Dashboard, or the files of the last SetDashboard
	openAPI   *file                            // Stores.OpenAPI
	paths     func() paths                     // of all functions, built on first use
	Options
}

// New returns an API with all routes. It fails if limiter is nil, a store other than ExportFiles is
// missing, or opts has neither Access nor AccessOff.
func New(limiter *ratelimit.Limiter, stores Stores, opts Options) (*API, error) {
	return newAPI((&service{stores: stores, Options: opts}).routes(), limiter, stores, opts)
}

// NewFunction returns an API with the routes of one function, such as "list-entity"; the
// default route serves everything else. It fails if limiter is nil, if no route has that name,
// if a store that the routes use is missing, or if the routes need an API key and opts has
// neither Access nor AccessOff.
func NewFunction(name string, limiter *ratelimit.Limiter, stores Stores, opts Options) (*API, error) {
	routes := routesNamed(name)
	if len(routes) == 0 {
		return nil, fmt.Errorf("httpapi: no route is named %q", name)
	}
	return newAPI(routes, limiter, stores, opts)
}

func newAPI(routes []Route, limiter *ratelimit.Limiter, stores Stores, opts Options) (*API, error) {
	if limiter == nil {
		return nil, errors.New("httpapi: a limiter is required")
	}
	opts.IPv6Prefix = cmp.Or(opts.IPv6Prefix, ratelimit.DefaultIPv6Prefix)
	opts.ExportJobs = cmp.Or(opts.ExportJobs, exportjob.Kind.Quota)
	stores.BatchWriters = cmp.Or(stores.BatchWriters, BatchWriters)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.RequestID == nil {
		opts.RequestID = func(*http.Request) string { return uuid.NewString() }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	a := &API{service: service{limiter: limiter, stores: stores, Options: opts}, mux: http.NewServeMux()}
	a.service.paths = sync.OnceValue(func() paths { return newPaths(a.service.routes()) })
	a.service.openAPI = newFile(func() []byte { return stores.OpenAPI })
	a.SetDashboard(stores.Dashboard)
	a.fallback = a.handler(defaultRoute, notFound)
	a.mux.Handle("/", a.fallback)
	byPath := make(map[string]pathHandler)
	for _, r := range routes {
		if r.Admin() && !opts.AdminRoutes {
			return nil, fmt.Errorf("httpapi: the route %s needs ADMIN_ROUTES=on", r.Name)
		}
		if err := r.check(stores, opts); err != nil {
			return nil, err
		}
		if r.Method == "" {
			continue
		}
		p, known := byPath[r.Path]
		if !known {
			p = pathHandler{methods: make(map[string]http.Handler), fallback: a.fallback}
			byPath[r.Path] = p
			a.mux.Handle(r.pattern(), p)
		}
		for _, method := range r.methods() {
			p.methods[method] = a.handler(r, r.action)
		}
	}
	return a, nil
}

// pathHandler serves the requests to one path. The default route serves the methods that the path does
// not have.
type pathHandler struct {
	methods  map[string]http.Handler
	fallback http.Handler
}

func (p pathHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cmp.Or(p.methods[r.Method], p.fallback).ServeHTTP(w, r)
}

func (a *API) handler(r Route, act action) http.Handler {
	return &endpoint{service: &a.service, route: r, action: act}
}

// Malformed returns a handler for Lambda events that cannot be converted to HTTP requests. The
// handler charges and authenticates them like requests with the given method to the named function,
// and responds with 400.
func (a *API) Malformed(name, method string) http.Handler {
	route := defaultRoute
	for _, r := range routesNamed(name) {
		if slices.Contains(r.methods(), method) {
			route = r
		}
	}
	route.body = 0
	return a.handler(route, func(*service, *request) (response, error) {
		return response{}, badRequest("malformed_request", "the request's URL or body encoding cannot be read; percent-encode the path and the query")
	})
}

// UnchargedHeaders returns the rate limit headers for a response to a request that could not be
// read, and so has no route and is not charged.
func (a *API) UnchargedHeaders() http.Header {
	header := make(http.Header)
	a.service.limiter.Uncharged(defaultRoute.limited()).SetHeaders(header)
	return header
}

// ServeHTTP implements [http.Handler]. If [http.ServeMux] would redirect a path, the default
// route serves the request instead, as in API Gateway. A HEAD request is served and charged like
// a GET request, and net/http's server or the Lambda adapter omits the body.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r.URL.EscapedPath()) {
		a.fallback.ServeHTTP(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}
