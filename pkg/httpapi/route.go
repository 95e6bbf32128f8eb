package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

// Route is a row of the route table.
type Route struct {
	Name   string // of the function's folder, and of its counter; rows of one name share them, and their action
	Method string // "" for the default route
	Path   string // in API Gateway's terms: /entity/{id}, or $default
	Class  ratelimit.Class
	Scope  access.Scope // of the keys that it lets in

	action action
	served func(Stores) bool // the stores it needs are there
}

// Key is API Gateway's name of the route, such as "GET /entity".
func (r Route) Key() string {
	if r.Method == "" {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// Routes is the route table: what template.yaml deploys, and nothing else.
func Routes() []Route {
	entities := func(s Stores) bool { return s.Entities != nil }
	events := func(s Stores) bool { return s.Events != nil }
	exportJobs := func(s Stores) bool { return s.ExportJobs != nil }
	exportLinks := func(s Stores) bool { return s.ExportJobs != nil && s.ExportLinks != nil }
	openAPI := func(s Stores) bool { return len(s.OpenAPI) > 0 }
	usage := func(s Stores) bool { return s.Usage != nil }
	dashboard := func(s Stores) bool { return s.Dashboard != nil }
	nothing := func(Stores) bool { return true }
	return []Route{
		{"list-entity", http.MethodGet, "/entity", ratelimit.Export, access.Export, listEntity, entities},
		{"get-entity", http.MethodGet, "/entity/{id}", ratelimit.Export, access.Export, getEntity, entities},
		{"list-event", http.MethodGet, "/event", ratelimit.Export, access.Export, listEvent, events},
		{"get-event", http.MethodGet, "/event/{id}", ratelimit.Export, access.Export, getEvent, events},
		{"create-entity", http.MethodPost, "/create_entity", ratelimit.Import, access.Import, createEntity, entities},
		{"update-entity", http.MethodPost, "/update_entity", ratelimit.Import, access.Import, updateEntity, entities},
		{"delete-entity", http.MethodPost, "/delete_entity", ratelimit.Import, access.Import, deleteEntity, entities},
		{"create-event", http.MethodPost, "/create_event", ratelimit.Import, access.Import, createEvent, events},
		{"create-events", http.MethodPost, "/create_events", ratelimit.Import, access.Import, createEvents, events},
		{"create-export-job", http.MethodPost, "/create_export_job", ratelimit.General, access.Dashboard, createExportJob, exportJobs},
		{"list-export-job", http.MethodGet, "/export_job", ratelimit.General, access.Dashboard, listExportJob, exportJobs},
		{"get-export-job", http.MethodGet, "/export_job/{id}", ratelimit.General, access.Dashboard, getExportJob, exportLinks},
		{"cancel-export-job", http.MethodPost, "/cancel_export_job", ratelimit.General, access.Dashboard, cancelExportJob, exportJobs},
		{"usage", http.MethodGet, "/usage", ratelimit.General, access.Dashboard, getUsage, usage},
		{"dashboard", http.MethodGet, "/dashboard", ratelimit.General, access.Public, serveDashboard, dashboard},
		{"dashboard", http.MethodGet, "/dashboard/{proxy+}", ratelimit.General, access.Public, serveDashboard, dashboard},
		{"dashboard", http.MethodPost, "/dashboard/session", ratelimit.General, access.Public, serveDashboard, dashboard},
		{"dashboard", http.MethodDelete, "/dashboard/session", ratelimit.General, access.Public, serveDashboard, dashboard},
		{"openapi", http.MethodGet, "/openapi.yaml", ratelimit.General, access.Public, getOpenAPI, openAPI},
		{"not-found", "", "$default", ratelimit.General, access.Public, notFound, nothing},
	}
}

func routeNamed(name string) (Route, bool) {
	routes := Routes()
	i := slices.IndexFunc(routes, func(r Route) bool { return r.Name == name })
	if i < 0 {
		return Route{}, false
	}
	return routes[i], true
}

// getOpenAPI shows the description of the API.
func getOpenAPI(h *Handler, r *request) (reply, error) {
	if err := parseQuery(r).err(); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/yaml"}}, encoded: h.stores.OpenAPI}, nil
}

// notFound answers what no route matches: 405 where the path has a route of
// another method, 404 elsewhere. To OPTIONS a path that has routes says which,
// with success: browsers ask so before a page of another origin may call, and
// where API Gateway hands that on, it adds the rest to this answer.
func notFound(_ *Handler, r *request) (reply, error) {
	var allow, greedy []string
	for _, route := range Routes() {
		switch {
		case route.Method == "" || !matchPath(route.Path, r.URL.Path):
		case strings.HasSuffix(route.Path, "+}"):
			greedy = append(greedy, route.Method)
		default:
			allow = append(allow, route.Method)
		}
	}
	if len(allow) == 0 {
		allow = greedy // of a path with a route of its own they find nothing
	}
	if len(allow) > 0 && r.Method == http.MethodOptions {
		return reply{status: http.StatusNoContent, header: http.Header{"Allow": {strings.Join(append(allow, http.MethodOptions), ", ")}}, encoded: []byte{}}, nil
	}
	if len(allow) > 0 {
		return reply{}, methodNotAllowed(r.Method, r.URL.Path, allow)
	}
	return reply{}, noSuchRoute(r.Method, r.URL.Path)
}

// matchPath reports whether path is one that a route's path stands for: equal
// segment by segment, {name} for any segment that is not empty, {name+} at the
// end for one or more segments.
func matchPath(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if n := len(want); strings.HasSuffix(pattern, "+}") && len(got) > n {
		got = got[:n]
	}
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if strings.HasPrefix(want[i], "{") {
			if got[i] == "" {
				return false
			}
		} else if want[i] != got[i] {
			return false
		}
	}
	return true
}

// pathParameter is a segment of the path. API Gateway hands it over as the
// client escaped it. A segment with a bad escape comes back as it is: no id
// has a '%'.
func (r *request) pathParameter(name string) string {
	v := r.pathParameters[name]
	if u, err := url.PathUnescape(v); err == nil {
		return u
	}
	return v
}

// trimStage is the event's path without the name of its stage, which API
// Gateway leaves in front of it for every stage but $default.
func trimStage(ev events.APIGatewayV2HTTPRequest) string {
	stage := ev.RequestContext.Stage
	if stage == "" || stage == "$default" {
		return ev.RawPath
	}
	if rest, ok := strings.CutPrefix(ev.RawPath, "/"+stage); ok && (rest == "" || rest[0] == '/') {
		return rest
	}
	return ev.RawPath
}

func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }
