package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// maxResponse is the largest response that Lambda accepts, in bytes of JSON. Source: AWS
// Lambda quotas, "Invocation payload".
const maxResponse = 6_291_556

// maxBody leaves 64 KiB for headers.
const maxBody = maxResponse - 64<<10

// A function passes API Gateway events (payload format 2.0) to the handlers of package
// httpapi. It takes care of what is specific to API Gateway: the stage in the path, the
// decoded path, the request id, the source address and the maximum size of a response.
type function struct {
	routes    *httpadapter.HandlerAdapterV2
	malformed func(method string) http.Handler // for events that cannot be converted to HTTP requests
}

func adapt(routes http.Handler, malformed func(method string) http.Handler) *function {
	return &function{routes: httpadapter.NewV2(fromGateway(routes)), malformed: malformed}
}

// Invoke is the handler for lambda.Start.
func (f *function) Invoke(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	converted, ok := convertible(ctx, ev)
	if !ok {
		return httpadapter.NewV2(fromGateway(f.malformed(ev.RequestContext.HTTP.Method))).ProxyWithContext(ctx, converted)
	}
	return f.routes.ProxyWithContext(ctx, converted)
}

// convertible returns ev in a form that the adapter can convert to an HTTP request. If that is
// impossible, ok is false, and the result is GET / with the valid headers and cookies of ev.
//
// The adapter prints the decoded path of an event that it cannot convert. Without convertible,
// a client could forge log lines in that path and so falsify metrics.
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

// hasControl ignores tabs.
func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == '\x7f' })
}

// fits reports whether Lambda accepts a response with this body. The runtime encodes a UTF-8 body
// as a JSON string, without escaping HTML, and any other body as base64. Either is at most six
// times as long as the body, so most bodies need not be encoded to find out.
func fits(body []byte) bool {
	switch {
	case len(body) < maxBody/6:
		return true
	case !utf8.Valid(body):
		return base64.StdEncoding.EncodedLen(len(body)) <= maxBody
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	return e.Encode(string(body)) == nil && encoded.Len() <= maxBody
}

// fromGateway gives requests the form that net/http's server would give them, except that
// r.RequestURI keeps the stage, which links need.
func fromGateway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ := core.GetAPIGatewayV2ContextFromContext(r.Context())
		r.Method = event.HTTP.Method // the adapter changes it to upper case
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

// trimStage removes the stage from the beginning of a path. API Gateway adds it to every path,
// unless the stage is $default.
func trimStage(path, stage string) string {
	rest, ok := strings.CutPrefix(path, "/"+stage)
	if stage == "" || stage == "$default" || !ok || rest != "" && rest[0] != '/' {
		return path
	}
	return cmp.Or(rest, "/")
}

// requestID returns the id that API Gateway gave the request.
func requestID(r *http.Request) string {
	event, _ := core.GetAPIGatewayV2ContextFromContext(r.Context())
	return event.RequestID
}
