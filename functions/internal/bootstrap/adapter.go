package bootstrap

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"sluice/pkg/api"
)

// maxResponse is the maximum size of a response that Lambda accepts from a function,
// in bytes of JSON. Source: AWS Lambda quotas, "Invocation payload".
const maxResponse = 6_291_556

// A function responds to API Gateway events (payload format 2.0) with the handlers of package
// httpapi. It handles everything that is specific to API Gateway: the stage in the path, the
// decoded path, the request id, the source address and the maximum size of a response.
type function struct {
	routes    *httpadapter.HandlerAdapterV2
	malformed *httpadapter.HandlerAdapterV2 // for events that cannot be converted to HTTP requests
	logger    *slog.Logger
}

func adapt(routes, malformed http.Handler, logger *slog.Logger) *function {
	return &function{
		routes:    httpadapter.NewV2(fromGateway(routes)),
		malformed: httpadapter.NewV2(fromGateway(malformed)),
		logger:    logger,
	}
}

// Invoke responds to an event. It is the handler for lambda.Start.
func (f *function) Invoke(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	routes := f.routes
	ev, ok := convertible(ctx, ev)
	if !ok {
		routes = f.malformed
	}
	resp, err := routes.ProxyWithContext(ctx, ev)
	if err == nil && tooLarge(resp) {
		f.logger.ErrorContext(ctx, "the response is larger than Lambda allows", "request_id", ev.RequestContext.RequestID, "bytes", len(resp.Body))
		resp = tooLargeProblem(resp, ev.RequestContext.RequestID)
	}
	return resp, err
}

// convertible returns an event that the adapter can convert to an HTTP request. If that is not
// ev, ok is false, and the event is a GET of / with the valid headers and cookies of ev.
//
// The adapter prints the decoded path of an event that it cannot convert. A client could put
// lines of a log into that path, and so change metrics.
func convertible(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (_ events.APIGatewayV2HTTPRequest, ok bool) {
	headers, cookies := maps.Clone(ev.Headers), slices.Clone(ev.Cookies)
	maps.DeleteFunc(headers, func(name, value string) bool { return hasControl(name) || hasControl(value) })
	cookies = slices.DeleteFunc(cookies, hasControl)
	ok = len(headers) == len(ev.Headers) && len(cookies) == len(ev.Cookies) && !hasControl(ev.RawPath) && !hasControl(ev.RawQueryString)
	if ev.IsBase64Encoded {
		body, err := base64.StdEncoding.DecodeString(ev.Body)
		ok = ok && err == nil
		ev.Body, ev.IsBase64Encoded = string(body), false
	}
	// API Gateway decodes the path, but the adapter expects it encoded, as in a URL.
	ev.RawPath = "/" + strings.TrimPrefix((&url.URL{Path: ev.RawPath}).EscapedPath(), "/")
	target := "https://" + ev.RequestContext.DomainName + ev.RawPath + "?" + ev.RawQueryString
	if _, err := http.NewRequestWithContext(ctx, ev.RequestContext.HTTP.Method, target, http.NoBody); err == nil && ok {
		return ev, true
	}
	ev.RawPath, ev.RawQueryString, ev.QueryStringParameters, ev.Body, ev.Headers, ev.Cookies = "/", "", nil, "", headers, cookies
	ev.RequestContext.DomainName, ev.RequestContext.HTTP.Method = "", http.MethodGet
	return ev, false
}

// hasControl reports whether text has a control character other than a tab.
func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == '\x7f' })
}

// tooLargeProblem returns a response with status 500 to replace resp, which is too large.
// The new response keeps the rate limit headers, because the request was charged.
func tooLargeProblem(resp events.APIGatewayV2HTTPResponse, requestID string) events.APIGatewayV2HTTPResponse {
	body, err := json.Marshal(api.Problem{
		Type: "about:blank", Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError,
		Code: "internal_error", Detail: "the response is too large; request fewer records", Instance: requestID,
	})
	if err != nil {
		panic(err) // a Problem holds only strings and numbers
	}
	resp.StatusCode, resp.Body, resp.IsBase64Encoded = http.StatusInternalServerError, string(body), false
	delete(resp.Headers, "Content-Length")
	delete(resp.Headers, "Content-Encoding")
	resp.Headers["Content-Type"] = "application/problem+json"
	return resp
}

// tooLarge reports whether Lambda would reject a response. The JSON encoding of a body
// has at most 6 times the size of the body. To save time, tooLarge accepts small bodies
// without encoding them.
func tooLarge(resp events.APIGatewayV2HTTPResponse) bool {
	if len(resp.Body) < maxResponse/8 {
		return false
	}
	text, err := json.Marshal(resp)
	return err != nil || len(text) > maxResponse
}

// fromGateway returns a handler that changes each request to the form that net/http's server
// would give it, and then passes the request to next. r.RequestURI still contains the stage,
// because links need it.
func fromGateway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ := core.GetAPIGatewayV2ContextFromContext(r.Context())
		r.RemoteAddr = net.JoinHostPort(event.HTTP.SourceIP, "0")
		r.URL.Path = trimStage(r.URL.Path, event.Stage)
		r.URL.RawPath = ""
		w.Header().Set("Strict-Transport-Security", "max-age=31536000") // API Gateway serves only HTTPS
		if r.Method == http.MethodHead {
			w = headWriter{w}
		}
		next.ServeHTTP(w, r)
	})
}

// headWriter discards the body of a response to HEAD, as net/http's server does.
type headWriter struct{ http.ResponseWriter }

func (headWriter) Write(b []byte) (int, error) { return len(b), nil }

// trimStage removes the name of the stage from the beginning of path. API Gateway
// adds the name for every stage except $default.
func trimStage(path, stage string) string {
	rest, ok := strings.CutPrefix(path, "/"+stage)
	if stage == "" || stage == "$default" || !ok || rest != "" && rest[0] != '/' {
		return path
	}
	return cmp.Or(rest, "/")
}

// requestID returns the id that API Gateway assigned to a request.
func requestID(r *http.Request) string {
	event, _ := core.GetAPIGatewayV2ContextFromContext(r.Context())
	return event.RequestID
}
