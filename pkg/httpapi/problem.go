package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// quotaExceeded is the problem type of a 429, from IANA's registry of HTTP problem types.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// Bounds on what an error sends, so that a small request cannot cause a large response. A problem
// has at most maxProblemBytes, and that of a batch maxResultBytes more for each element.
const (
	maxProblemBytes = 8 << 10
	maxResultBytes  = 300
	spareBytes      = 3 << 10 // what all elements together may have above maxResultBytes each
	shortDetail     = 75      // bytes of the detail of an element that would have more
	maxDetail       = 1000    // characters
	maxFieldDetail  = 400     // characters
)

type apiError struct {
	status   int
	code     string
	detail   string
	fields   []record.FieldError
	violated []string
	results  []api.BatchResult
	revision *int64      // the entity's current revision, if it is another than the change was made for
	header   http.Header // in addition to the headers that every problem has; may be nil
	cause    error       // only for the log
}

func (e *apiError) Error() string {
	if e.cause != nil {
		return e.detail + ": " + e.cause.Error()
	}
	return e.detail
}

func (e *apiError) Unwrap() error { return e.cause }

func badRequest(code, detail string) error {
	return &apiError{status: http.StatusBadRequest, code: code, detail: detail}
}

func badParameters(fields record.Fields) error {
	return &apiError{status: http.StatusBadRequest, code: "invalid_parameter", detail: "a query parameter cannot be accepted: " + sentence(fields), fields: fields}
}

func noSuchRoute(method, path string) error {
	advice := "check the path"
	if instead := routeInstead(method, path); instead != "" {
		advice = "use " + record.Shorten(instead)
	}
	return &apiError{status: http.StatusNotFound, code: "no_such_route", detail: fmt.Sprintf("there is no route %s %s; %s", record.Shorten(method), record.Shorten(path), advice)}
}

func methodNotAllowed(method, path string, allow []string) error {
	use := strings.Join(allow, " or ")
	if instead := routeInstead(method, path); instead != "" {
		use += ", or " + record.Shorten(instead)
	}
	return &apiError{
		status: http.StatusMethodNotAllowed, code: "method_not_allowed", header: http.Header{"Allow": {strings.Join(allow, ", ")}},
		detail: fmt.Sprintf("%s does not support the method %s; use %s", record.Shorten(path), record.Shorten(method), use),
	}
}

// These maps translate requests that are common in other APIs, such as PUT /entities, to the
// routes of this API.
var (
	plurals = map[string]string{"entities": "entity", "events": "event", "export_jobs": "export_job"}
	writes  = map[string]string{
		"POST entity": "create_entity", "PUT entity": "upsert_entities", "PATCH entity": "update_entity", "DELETE entity": "delete_entity",
		"POST event": "create_event", "PUT event": "create_event",
		"POST export_job": "create_export_job", "DELETE export_job": "cancel_export_job",
	}
)

// routeInstead returns the route that the client probably meant, or "".
func routeInstead(method, path string) string {
	segment, rest, nested := strings.Cut(strings.Trim(path, "/"), "/")
	noun := cmp.Or(plurals[segment], segment)
	switch route := writes[method+" "+noun]; {
	case route != "":
		return "POST /" + route
	case noun == segment:
		return ""
	case nested:
		return "/" + noun + "/" + rest
	}
	return "/" + noun
}

// refusal returns the error for a request that d refuses, or nil if d allows it. by is who was
// counted.
func refusal(d ratelimit.Decision, by ratelimit.Subject) error {
	switch {
	case d.Allowed:
		return nil
	case d.Blocked:
		blocked := "address"
		if by.ByKey() {
			blocked = "key"
		}
		return &apiError{
			status: http.StatusForbidden, code: blocked + "_blocked",
			detail: "the operator has blocked your " + blocked + ", so nothing was done; do not repeat the request",
		}
	}
	if c, ok := d.Quota(); ok {
		return overQuota(d, c)
	}
	violated := d.Violated()
	return &apiError{
		status: http.StatusTooManyRequests, code: "rate_limit_exceeded", violated: violated,
		detail: fmt.Sprintf("the limit of %s per second is reached; wait until the window resets at %d (Unix time), then continue", strings.Join(violated, " and "), d.Window.Reset()),
	}
}

// overQuota returns the error for a request that exceeds the quota of c.
func overQuota(d ratelimit.Decision, c ratelimit.Count) error {
	var state string
	switch ends := time.Unix(d.End(c), 0).UTC().Format(time.RFC3339); {
	case c.Unknown:
		state = fmt.Sprintf("is less than the %d that the request takes; ask for fewer. It ends at %s", c.Cost, ends)
	case c.Left() > 0:
		state = fmt.Sprintf("has %d left, fewer than the request takes; ask for fewer, or wait until it ends at %s", c.Left(), ends)
	default:
		state = fmt.Sprintf("is used up, with 0 left; wait until it ends at %s", ends)
	}
	return &apiError{
		status: http.StatusTooManyRequests, code: "rate_limit_exceeded", violated: d.Violated(),
		header: http.Header{"Retry-After": {strconv.Itoa(d.RetryAfter())}},
		detail: fmt.Sprintf("your quota of %d %s per %v %s", c.Rule.Limit, c.Rule.Counter, c.Rule.Period, state),
	}
}

func countersUnavailable(cause error) error {
	return &apiError{
		status: http.StatusServiceUnavailable, code: "rate_limiter_unavailable", cause: cause,
		detail: "the rate limit could not be checked, so nothing was done; try again",
	}
}

func unsendable(size int) error {
	return &apiError{
		status: http.StatusInternalServerError, code: "internal_error", cause: fmt.Errorf("the response has %d bytes", size),
		detail: "the response is too large; request fewer records",
	}
}

var problems = map[record.Code]apiError{
	record.Malformed:   {status: http.StatusBadRequest, code: "malformed_json"},
	record.Invalid:     {status: http.StatusUnprocessableEntity, code: "invalid_body"},
	record.NotFound:    {status: http.StatusNotFound, code: "not_found"},
	record.Conflict:    {status: http.StatusConflict, code: "conflict"},
	record.Mismatch:    {status: http.StatusPreconditionFailed, code: "revision_mismatch"},
	record.Unavailable: {status: http.StatusServiceUnavailable, code: "store_unavailable"},
}

// asAPIError converts err to an *apiError. An error of unknown type is a fault of the service, and
// becomes a 500 that does not reveal the cause.
func asAPIError(err error) *apiError {
	if known, ok := errors.AsType[*apiError](err); ok {
		return known
	}
	if full, ok := errors.AsType[*job.QuotaError](err); ok {
		return &apiError{status: http.StatusConflict, code: full.Code(), detail: full.Error()}
	}
	if e := adminError(err); e != nil {
		return e
	}
	if re, ok := errors.AsType[*record.Error](err); ok {
		if e, ok := problems[re.Code]; ok {
			e.detail, e.fields, e.cause = re.Detail, re.Fields, re.Err
			if re.Code == record.Mismatch {
				e.revision = &re.Revision
			}
			if len(re.Fields) > 0 {
				e.detail += ": " + sentence(re.Fields)
			}
			return &e
		}
	}
	return &apiError{status: http.StatusInternalServerError, code: "internal_error", cause: err,
		detail: "the service failed; repeat the request later, and report its request id if it keeps failing"}
}

func sentence(fields []record.FieldError) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = strings.TrimPrefix(f.Field+" "+f.Detail, " ")
	}
	return strings.Join(parts, "; ")
}

// problem returns e as a problem (RFC 9457). instance is the request id, or "" in a batch
// result.
func (e *apiError) problem(instance string) api.Problem {
	p := api.Problem{
		Type: "about:blank", Title: http.StatusText(e.status), Status: e.status, Detail: record.ShortenTo(e.detail, maxDetail),
		Instance: instance, Code: e.code, Errors: slices.Clone(e.fields), ViolatedPolicies: e.violated, Results: e.results, CurrentRevision: e.revision,
	}
	for i, f := range p.Errors {
		p.Errors[i].Detail = record.ShortenTo(f.Detail, maxFieldDetail)
	}
	if e.status == http.StatusTooManyRequests {
		p.Type, p.Title = quotaExceeded, "Request cannot be satisfied as assigned quota has been exceeded"
	}
	return p
}

// problem returns the response to a failed request, and keeps err for the log.
func (r *request) problem(err error) response {
	r.log.err = err
	e := asAPIError(err)
	out := response{status: e.status, header: http.Header{"Content-Type": {"application/problem+json"}}}
	maps.Copy(out.header, e.header)
	again := e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable
	if again && out.header.Get("Retry-After") == "" {
		out.header.Set("Retry-After", strconv.Itoa(ratelimit.RetryAfter))
	}
	p := e.problem(r.id)
	out.raw = encodeProblem(p)
	for len(out.raw) > maxProblemBytes+len(p.Results)*maxResultBytes && len(p.Errors) > 0 {
		p.Errors = p.Errors[:len(p.Errors)/2] // the detail names the first ones too
		out.raw = encodeProblem(p)
	}
	if again && r.isPage() {
		return r.retryPage(out)
	}
	return out
}

func encodeProblem(p any) []byte {
	b, err := json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // a problem holds only strings and numbers
	}
	return append(b, '\n')
}

// shortenResults shortens the problems of elements to maxResultBytes once spareBytes are used up.
func shortenResults(results []api.BatchResult) {
	spare := spareBytes
	for _, r := range results {
		if r.Problem == nil {
			continue
		}
		if spare -= max(0, len(encodeProblem(r))-maxResultBytes); spare < 0 {
			spare = 0
			r.Problem.Errors = nil
			if d := r.Problem.Detail; len(d) > shortDetail {
				r.Problem.Detail = strings.ToValidUTF8(d[:shortDetail], "") + "…"
			}
		}
	}
}
