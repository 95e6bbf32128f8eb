package httpapi

import (
	"fmt"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

// Route is a row of the route table.
type Route struct {
	Name   string          // name of the function's folder and of the counter; routes with the same name share both
	Method string          // "" for the default route
	Path   string          // in the syntax of API Gateway: /entity/{id}, or $default
	Class  ratelimit.Class // selects the rules that apply
	Scope  access.Scope    // the scope that an API key needs

	action action
	uses   string // the fields of Stores that the route uses, separated by spaces
	body   int64  // maximum size of the body in bytes; 0 if the route takes none
}

// Key returns API Gateway's route key for the path of r, such as "ANY /entity". Routes with the
// same path share it, and have the same name.
func (r Route) Key() string {
	if r.Method == "" {
		return r.Path
	}
	return "ANY " + r.Path
}

// String returns the method and the path, such as "GET /entity", or "$default".
func (r Route) String() string { return strings.TrimSpace(r.Method + " " + r.Path) }

// Scopes lists the scopes of which an API key needs one, Scope first. A program that imports also
// reads which attributes are indexed, for the types of columns.
func (r Route) Scopes() []access.Scope {
	if r.Path == "/entity_index" {
		return []access.Scope{r.Scope, access.Import}
	}
	return []access.Scope{r.Scope}
}

// methods returns the methods that r serves. A GET route also serves HEAD.
func (r Route) methods() []string {
	if r.Method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.Method}
}

// Batch reports whether a request may have many records.
func (r Route) Batch() bool { return r.body == maxBatchBytes }

func (r Route) limited() ratelimit.Route { return ratelimit.Route{Name: r.Name, Class: r.Class} }

// pattern returns the path of r in the syntax of [http.ServeMux].
func (r Route) pattern() string {
	if r.Path == "/" {
		return "/{$}"
	}
	return strings.Replace(r.Path, "+}", "...}", 1)
}

// check fails if stores or opts lack something that the route needs.
func (r Route) check(stores Stores, opts Options) error {
	switch {
	case r.Scope == "":
		return fmt.Errorf("httpapi: the route %s declares no scope", r.Name)
	case r.Scope != access.Public && opts.Access == nil && !opts.AccessOff:
		return fmt.Errorf("httpapi: the route %s needs API keys, but no store of keys is configured", r.Name)
	}
	for field := range strings.FieldsSeq(r.uses) {
		if reflect.ValueOf(stores).FieldByName(field).IsZero() {
			return fmt.Errorf("httpapi: the route %s needs Stores.%s", r.Name, field)
		}
	}
	return nil
}

var defaultRoute = Route{Name: "not-found", Path: "$default", Class: ratelimit.General, Scope: access.Public}

// Routes returns the route table. template.yaml deploys exactly these routes, and those that are Admin
// only if the operator turns them on.
func Routes() []Route {
	return append(adminRoutes(), []Route{
		{"list-entity", http.MethodGet, "/entity", ratelimit.Export, access.Export, listEntity, "Entities Finder Indexes", 0},
		{"get-entity", http.MethodGet, "/entity/{id}", ratelimit.Export, access.Export, getEntity, "Entities", 0},
		{"list-event", http.MethodGet, "/event", ratelimit.Export, access.Export, listEvent, "Events Indexes", 0},
		{"get-event", http.MethodGet, "/event/{id}", ratelimit.Export, access.Export, getEvent, "Events", 0},
		{"create-entity", http.MethodPost, "/create_entity", ratelimit.Import, access.Import, createEntity, "Entities", maxBodyBytes},
		{"update-entity", http.MethodPost, "/update_entity", ratelimit.Import, access.Import, updateEntity, "Entities", maxBodyBytes},
		{"delete-entity", http.MethodPost, "/delete_entity", ratelimit.Import, access.Import, deleteEntity, "Entities Erasures", maxBodyBytes},
		{"upsert-entities", http.MethodPost, "/upsert_entities", ratelimit.Import, access.Import, upsertEntities, "Entities", maxBatchBytes},
		{"create-event", http.MethodPost, "/create_event", ratelimit.Import, access.Import, createEvent, "Events", maxBodyBytes},
		{"create-events", http.MethodPost, "/create_events", ratelimit.Import, access.Import, createEvents, "Events", maxBatchBytes},
		{"get-erasure-job", http.MethodGet, "/erasure_job/{id}", ratelimit.General, access.Erase, getErasureJob, "ErasureJobs", 0},
		{"create-export-job", http.MethodPost, "/create_export_job", ratelimit.General, access.Export, createExportJob, "ExportJobs", maxBodyBytes},
		{"list-export-job", http.MethodGet, "/export_job", ratelimit.General, access.Export, listExportJob, "ExportJobs", 0},
		{"get-export-job", http.MethodGet, "/export_job/{id}", ratelimit.General, access.Export, getExportJob, "ExportJobs ExportLinks", 0},
		{"cancel-export-job", http.MethodPost, "/cancel_export_job", ratelimit.General, access.Export, cancelExportJob, "ExportJobs", maxBodyBytes},
		{"delete-export-job", http.MethodPost, "/delete_export_job", ratelimit.General, access.Erase, deleteExportJob, "ExportJobs ExportDeleter", maxBodyBytes},
		{"list-entity-index", http.MethodGet, "/entity_index", ratelimit.General, access.Export, listEntityIndex, "Indexes", 0},
		{"usage", http.MethodGet, "/usage", ratelimit.General, access.Dashboard, getUsage, "Usage Keys", 0},
		{"dashboard", http.MethodGet, "/", ratelimit.General, access.Public, getRoot, "Dashboard", 0},
		{"dashboard", http.MethodGet, "/dashboard", ratelimit.General, access.Public, getDashboard, "Dashboard", 0},
		{"dashboard", http.MethodGet, "/dashboard/{proxy+}", ratelimit.General, access.Public, getDashboard, "Dashboard", 0},
		{"dashboard", http.MethodPost, "/dashboard/session", ratelimit.General, access.Public, signIn, "Dashboard", maxBodyBytes},
		{"dashboard", http.MethodDelete, "/dashboard/session", ratelimit.General, access.Public, signOut, "Dashboard", 0},
		{"openapi", http.MethodGet, "/openapi.yaml", ratelimit.General, access.Public, getOpenAPI, "OpenAPI", 0},
		{"health", http.MethodGet, "/health", ratelimit.General, access.Public, getHealth, "Entities Events", 0},
		defaultRoute,
	}...)
}

// adminRoutes are those whose Admin is true. Some of them also need the scope operator, and check that
// themselves.
func adminRoutes() []Route {
	return []Route{
		{"list-api-key", http.MethodGet, "/api_key", ratelimit.General, access.Admin, listAPIKey, "Keys", 0},
		{"create-api-key", http.MethodPost, "/create_api_key", ratelimit.General, access.Admin, createAPIKey, "Keys LimitRows Audit", maxAdminBytes},
		{"revoke-api-key", http.MethodPost, "/revoke_api_key", ratelimit.General, access.Admin, revokeAPIKey, "Keys Audit", maxAdminBytes},
		{"set-api-key-plan", http.MethodPost, "/set_api_key_plan", ratelimit.General, access.Admin, setAPIKeyPlan, "Keys LimitRows Audit", maxAdminBytes},
		{"list-limit", http.MethodGet, "/limit", ratelimit.General, access.Admin, listLimit, "LimitRows", 0},
		{"set-limit", http.MethodPost, "/set_limit", ratelimit.General, access.Admin, setLimit, "LimitRows Audit", maxAdminBytes},
		{"remove-limit", http.MethodPost, "/remove_limit", ratelimit.General, access.Admin, removeLimit, "Keys LimitRows Audit", maxAdminBytes},
		{"create-entity-index", http.MethodPost, "/create_entity_index", ratelimit.General, access.Admin, createEntityIndex, "Declarations Audit", maxAdminBytes},
		{"remove-entity-index", http.MethodPost, "/remove_entity_index", ratelimit.General, access.Admin, removeEntityIndex, "Declarations Audit", maxAdminBytes},
		{"list-audit", http.MethodGet, "/audit", ratelimit.General, access.Admin, listAudit, "Audit", 0},
	}
}

// Admin reports whether the route exists only if Config.AdminRoutes is set.
func (r Route) Admin() bool { return r.Scope == access.Admin }

// routes returns the routes of an API with all stores. The links to export files are not deployed,
// because on AWS they lead to the bucket.
func (s *service) routes() []Route {
	routes := slices.DeleteFunc(Routes(), func(r Route) bool { return r.Admin() && !s.AdminRoutes })
	if s.stores.ExportFiles == nil {
		return routes
	}
	return append(routes, Route{"export-file", http.MethodGet, "/export_file/{workspace}/{file}", ratelimit.General, access.Public, getExportFile, "ExportFiles", 0})
}

func routesNamed(name string) []Route {
	return slices.DeleteFunc(Routes(), func(r Route) bool { return r.Name != name })
}

func getOpenAPI(s *service, r *request) (response, error) {
	if err := parseQuery(r).err(); err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, header: http.Header{"Content-Type": {"application/yaml"}}, raw: s.openAPI.text(), file: s.openAPI}, nil
}

// notFound serves the default route, and requests whose method the path does not have. It responds
// with 405 if the path has routes, and otherwise with 404. OPTIONS gets 204 if the path has routes:
// browsers send it before they let a page from another origin call them. API Gateway adds the CORS
// headers.
func notFound(s *service, r *request) (response, error) {
	allow := s.paths().allowed(r.Request)
	switch {
	case len(allow) == 0 || slices.Contains(allow, r.Method): // allow has r.Method if only the decoded path matches a route: API Gateway matches the path as sent
		return response{}, noSuchRoute(r.Method, r.URL.Path)
	case r.Method == http.MethodOptions:
		return response{status: http.StatusNoContent, header: http.Header{"Allow": {strings.Join(append(allow, http.MethodOptions), ", ")}}}, nil
	default:
		return response{}, methodNotAllowed(r.Method, r.URL.Path, allow)
	}
}

// paths maps the patterns of all paths to the methods of their routes. Its mux only finds the
// pattern of a request; its handlers are never called.
type paths struct {
	mux     *http.ServeMux
	methods map[string][]string
}

func newPaths(routes []Route) paths {
	all := paths{http.NewServeMux(), make(map[string][]string)}
	for _, r := range routes {
		if r.Method == "" {
			continue
		}
		if all.methods[r.pattern()] == nil {
			all.mux.Handle(r.pattern(), http.NotFoundHandler())
		}
		all.methods[r.pattern()] = append(all.methods[r.pattern()], r.methods()...)
	}
	return all
}

// allowed returns the methods of the routes with hr's path.
func (p paths) allowed(hr *http.Request) []string {
	if !isClean(hr.URL.EscapedPath()) {
		return nil
	}
	_, pattern := p.mux.Handler(hr)
	return slices.Clip(p.methods[pattern])
}

// isClean reports whether ServeMux serves an escaped path without a redirect.
func isClean(escaped string) bool {
	if escaped == "/dashboard/" || !strings.HasPrefix(escaped, "/") {
		return false // API Gateway's {proxy+} needs at least one segment, unlike ServeMux's {proxy...}
	}
	clean := path.Clean(escaped)
	if strings.HasSuffix(escaped, "/") && clean != "/" {
		clean += "/"
	}
	return clean == escaped
}
