// Package gateway stands in for an API Gateway HTTP API: it turns each HTTP
// request into an event of payload format 2.0, hands it to the function of the
// route that matches, and writes the function's response.
//
// It follows the service where clients could tell: the source address comes
// from the socket, header names are lower case and repeated headers joined by
// commas, the path is handed over decoded and the query as it came, bodies
// that are not text are base64. Source: "AWS Lambda proxy integrations for
// HTTP APIs" in the API Gateway developer guide.
package gateway

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/uuid"
)

// maxBodyBytes is the largest body that is handed to a function. API Gateway
// takes 10 MB and Lambda 6 MB with the event around it.
const maxBodyBytes = 5 << 20

// defaultRoute is the key of the route that takes what no other matches.
const defaultRoute = "$default"

// Function answers an event: what a function gives to lambda.Start.
type Function func(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	routes    []route
	otherwise Function
	logger    *slog.Logger
}

type route struct {
	key      string
	method   string
	segments []string
	greedy   bool // the last segment, {name+}, stands for all that follow
	function Function
}

// New makes a gateway of functions by route key, such as "GET /entity/{id}";
// the key $default is required.
func New(functions map[string]Function, logger *slog.Logger) (*Gateway, error) {
	g := &Gateway{otherwise: functions[defaultRoute], logger: logger}
	if g.otherwise == nil {
		return nil, fmt.Errorf("gateway: there is no function for %s", defaultRoute)
	}
	for key, f := range functions {
		if key == defaultRoute {
			continue
		}
		method, path, ok := strings.Cut(key, " ")
		if !ok || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("gateway: the route key %q is not a method and a path", key)
		}
		g.routes = append(g.routes, route{key: key, method: method, segments: strings.Split(path, "/"), greedy: strings.HasSuffix(path, "+}"), function: f})
	}
	return g, nil
}

// match finds the route of a request and the parameters in its path: a route
// without parameters before one with them, and that before a greedy one, as API
// Gateway does.
func (g *Gateway) match(method, path string) (key string, f Function, params map[string]string) {
	var found *route
	segments := strings.Split(path, "/")
	for i := range g.routes {
		r := &g.routes[i]
		p, ok := r.match(method, segments)
		if ok && (found == nil || found.greedy && !r.greedy || found.greedy == r.greedy && len(p) < len(params)) {
			found, params = r, p
		}
	}
	if found == nil {
		return defaultRoute, g.otherwise, nil
	}
	return found.key, found.function, params
}

func (r *route) match(method string, segments []string) (params map[string]string, ok bool) {
	if method != r.method {
		return nil, false
	}
	if n := len(r.segments); r.greedy && len(segments) > n {
		segments = append(slices.Clone(segments[:n-1]), strings.Join(segments[n-1:], "/"))
	}
	if len(segments) != len(r.segments) {
		return nil, false
	}
	for i, want := range r.segments {
		switch {
		case strings.HasPrefix(want, "{"):
			if segments[i] == "" {
				return nil, false
			}
			if params == nil {
				params = make(map[string]string, 1)
			}
			params[strings.Trim(want, "{+}")] = segments[i]
		case want != segments[i]:
			return nil, false
		}
	}
	return params, true
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, f, params := g.match(r.Method, r.URL.EscapedPath())
	ev, err := newEvent(r, key, params)
	if err != nil {
		return // the client has gone, or broke off its body
	}
	w.Header().Set("Apigw-Requestid", ev.RequestContext.RequestID)
	resp, err := f(r.Context(), ev)
	if err == nil {
		err = writeResponse(w, resp)
	}
	if err != nil {
		g.logger.Error("function failed", "route", key, "request_id", ev.RequestContext.RequestID, "error", err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"message":"Internal Server Error"}`) //nolint:errcheck // the client may have gone
	}
}

// newEvent makes the event of a request. It fails when the body cannot be read.
func newEvent(r *http.Request, key string, params map[string]string) (events.APIGatewayV2HTTPRequest, error) {
	var body []byte
	var err error
	if r.ContentLength != 0 { // it is -1 when it is not known
		// One byte over the bound is enough to know; the function refuses by length.
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1)); err != nil {
			return events.APIGatewayV2HTTPRequest{}, fmt.Errorf("read body: %w", err)
		}
	}
	headers := make(map[string]string, len(r.Header)+2)
	var cookies []string
	for name, values := range r.Header {
		if name == "Cookie" {
			for _, v := range values {
				cookies = append(cookies, strings.Split(v, "; ")...)
			}
			continue
		}
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	headers["host"] = r.Host
	headers["content-length"] = strconv.FormatInt(max(r.ContentLength, int64(len(body))), 10)
	if len(body) > maxBodyBytes {
		body = nil
	}
	source, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		source = r.RemoteAddr
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return events.APIGatewayV2HTTPRequest{}, fmt.Errorf("make request id: %w", err)
	}
	now := time.Now().UTC()
	text, encoded := encodeBody(body, r.Header.Get("Content-Type"))
	return events.APIGatewayV2HTTPRequest{
		Version:               "2.0",
		RouteKey:              key,
		RawPath:               r.URL.Path,
		RawQueryString:        r.URL.RawQuery,
		Cookies:               cookies,
		Headers:               headers,
		QueryStringParameters: joinValues(r),
		PathParameters:        params,
		Body:                  text,
		IsBase64Encoded:       encoded,
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey:   key,
			AccountID:  "000000000000",
			APIID:      "local",
			Stage:      "$default",
			RequestID:  id.String(),
			DomainName: r.Host,
			Time:       now.Format("02/Jan/2006:15:04:05 -0700"),
			TimeEpoch:  now.UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, SourceIP: source, UserAgent: r.UserAgent(),
			},
		},
	}, nil
}

func joinValues(r *http.Request) map[string]string {
	if r.URL.RawQuery == "" {
		return nil
	}
	query := r.URL.Query()
	joined := make(map[string]string, len(query))
	for name, values := range query {
		joined[name] = strings.Join(values, ",")
	}
	return joined
}

// encodeBody is a body as an event holds it: text as it is, all else in base64.
func encodeBody(body []byte, contentType string) (text string, isBase64 bool) {
	if len(body) == 0 {
		return "", false
	}
	mediaType, _, _ := mime.ParseMediaType(contentType)
	isText := strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "json") || strings.HasSuffix(mediaType, "xml") || strings.HasSuffix(mediaType, "javascript")
	if isText && utf8.Valid(body) {
		return string(body), false
	}
	return base64.StdEncoding.EncodeToString(body), true
}

// writeResponse sends a function's response. It fails, before anything is
// sent, when the response cannot be one.
func writeResponse(w http.ResponseWriter, resp events.APIGatewayV2HTTPResponse) error {
	body := resp.Body
	if resp.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(resp.Body)
		if err != nil {
			return fmt.Errorf("decode response body: %w", err)
		}
		body = string(decoded)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		return fmt.Errorf("response with the status code %d", resp.StatusCode)
	}
	header := w.Header()
	for name, value := range resp.Headers {
		header[name] = []string{value}
	}
	for _, cookie := range resp.Cookies {
		header.Add("Set-Cookie", cookie)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(resp.StatusCode)
	io.WriteString(w, body) //nolint:errcheck // the client may have gone
	return nil
}
