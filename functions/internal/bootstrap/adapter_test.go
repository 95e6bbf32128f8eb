package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"sluice/internal/test/boltstores"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/entity"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

func now() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) }

// A service invokes functions in this process, with embedded stores.
type service struct {
	limiter *ratelimit.Limiter
	stores  httpapi.Stores
	opts    httpapi.Options
}

func newService(t *testing.T) *service {
	t.Helper()
	stores, counters := boltstores.New(t, now)
	stores.ExportLinks, stores.ExportDeleter = noLinks{}, noLinks{}
	var log bytes.Buffer
	t.Cleanup(func() { secrettest.Check(t, "a function", log.String()) })
	s := &service{
		stores: stores,
		opts:   httpapi.Options{Config: httpapi.Config{AccessOff: true, AdminRoutes: true}, RequestID: requestID, Fits: fits, Now: now, Logger: slog.New(slog.NewTextHandler(&log, nil))},
	}
	var err error
	if s.limiter, err = ratelimit.New(counters, ratelimit.Config{Now: now}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) invoke(t *testing.T, name string, ev events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	api, err := httpapi.NewFunction(name, s.limiter, s.stores, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := adapt(api, func(method string) http.Handler { return api.Malformed(name, method) }).Invoke(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Headers["X-RateLimit-Limit"] == "" || resp.Headers["X-RateLimit-Reset"] == "" {
		t.Errorf("%s: no rate limit headers: %v", name, resp.Headers)
	}
	if resp.Headers["Strict-Transport-Security"] != "max-age=31536000" {
		t.Errorf("%s: browsers may use HTTP: %v", name, resp.Headers)
	}
	return resp
}

func TestSampleEventsReachTheirRoutes(t *testing.T) {
	s := newService(t)
	for _, r := range httpapi.Routes() {
		ev := lambdatest.Sample(t, r.Name)
		resp := s.invoke(t, r.Name, ev)
		lost := strings.Contains(resp.Body, `"code":"no_such_route"`) || resp.StatusCode == http.StatusMethodNotAllowed
		if resp.StatusCode >= 500 || lost != (r.Method == "") {
			t.Errorf("%s: %d %s", r, resp.StatusCode, resp.Body)
		}
		if key := ev.RouteKey; r.Name != "dashboard" && key != r.Key() || key != ev.RequestContext.RouteKey {
			t.Errorf("%s has the route key %s", r, key)
		}
		if resp.StatusCode >= 400 && !strings.Contains(resp.Body, `"instance":"`+ev.RequestContext.RequestID+`"`) {
			t.Errorf("%s: no request id %s in %s", r, ev.RequestContext.RequestID, resp.Body)
		}
	}
}

// API Gateway would forward the body of a response to HEAD, so the function must return none.
func TestAResponseToHEADHasNoBody(t *testing.T) {
	s := newService(t)
	ev := lambdatest.Sample(t, "openapi")
	get := s.invoke(t, "openapi", ev)
	ev.RequestContext.HTTP.Method = "HEAD"
	head := s.invoke(t, "openapi", ev)
	if head.StatusCode != 200 || head.Body != "" || head.Headers["Content-Length"] != get.Headers["Content-Length"] || head.Headers["X-RateLimit-Remaining"] == "" {
		t.Errorf("HEAD: %d %v %.100q", head.StatusCode, head.Headers, head.Body)
	}
}

func TestAStageIsNotPartOfThePath(t *testing.T) {
	s := newService(t)
	for path, status := range map[string]int{"/v1/entity": 405, "/v1": 405, "/v1/nowhere": 404, "/v10/entity": 404, "/entity": 405} {
		ev := lambdatest.Sample(t, "not-found")
		ev.RequestContext.Stage, ev.RawPath, ev.RequestContext.HTTP.Method = "v1", path, "PATCH"
		if resp := s.invoke(t, "not-found", ev); resp.StatusCode != status {
			t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, resp.Body, status)
		}
	}
	for _, path := range []string{"/v1/dashboard", "/v1/dashboard/0123456789abcdef/app.js"} {
		ev := lambdatest.Sample(t, "dashboard")
		ev.RequestContext.Stage, ev.RawPath = "v1", path
		if resp := s.invoke(t, "dashboard", ev); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, resp.Body)
		}
	}
}

func TestALinkKeepsTheStage(t *testing.T) {
	s := newService(t)
	for _, id := range []string{"a", "b"} {
		ev := lambdatest.Sample(t, "create-entity")
		ev.Body = `{"id":"` + id + `"}`
		s.invoke(t, "create-entity", ev)
	}
	for stage, prefix := range map[string]string{"$default": "</entity?", "v1": "</v1/entity?"} {
		ev := lambdatest.Sample(t, "list-entity")
		ev.RequestContext.Stage, ev.RawQueryString = stage, "limit=1"
		if stage != "$default" {
			ev.RawPath = "/" + stage + ev.RawPath
		}
		if resp := s.invoke(t, "list-entity", ev); !strings.HasPrefix(resp.Headers["Link"], prefix) {
			t.Errorf("%s: %d, Link: %s", stage, resp.StatusCode, resp.Headers["Link"])
		}
	}
}

// malformed lists changes after which an event cannot be converted to an HTTP request.
var malformed = map[string]func(ev *events.APIGatewayV2HTTPRequest){
	"a body that is not base64": func(ev *events.APIGatewayV2HTTPRequest) { ev.Body, ev.IsBase64Encoded = "%", true },
	"an invalid host":           func(ev *events.APIGatewayV2HTTPRequest) { ev.RequestContext.DomainName = "[::1" },
	"a control character":       func(ev *events.APIGatewayV2HTTPRequest) { ev.RawQueryString = "limit=\x01" },
	"a line break in the path":  func(ev *events.APIGatewayV2HTTPRequest) { ev.RawPath = "/create_event\n{}" },
	"a method with a space":     func(ev *events.APIGatewayV2HTTPRequest) { ev.RequestContext.HTTP.Method = "PO ST" },
	"a line break in a header":  func(ev *events.APIGatewayV2HTTPRequest) { ev.Headers["x-request"] = "a\nb" },
	"a line break in a cookie":  func(ev *events.APIGatewayV2HTTPRequest) { ev.Cookies = []string{"a=\n"} },
}

func TestMalformedEventsGet400(t *testing.T) {
	s := newService(t)
	for name, change := range malformed {
		ev := lambdatest.Sample(t, "create-event")
		change(&ev)
		if resp := s.invoke(t, "create-event", ev); resp.StatusCode != 400 || !strings.Contains(resp.Body, `"malformed_request"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Body)
		}
	}
	ev := lambdatest.Sample(t, "create-event")
	ev.RequestContext.HTTP.SourceIP = ""
	if resp := s.invoke(t, "create-event", ev); resp.StatusCode != 400 || !strings.Contains(resp.Body, `"invalid_client_address"`) {
		t.Errorf("no source address: %d %s", resp.StatusCode, resp.Body)
	}
}

func TestMalformedEventsAreChargedAndNeedAKey(t *testing.T) {
	s := newService(t)
	keys := keyStore{}
	s.opts.AccessOff = false
	var err error
	if s.opts.Access, err = access.NewAuthenticator(keys, now); err != nil {
		t.Fatal(err)
	}
	key, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: []access.Scope{access.Import}}, now().Add(-time.Hour))
	keys[key.ID] = key
	left := int64(200)
	for authorization, want := range map[string]int{"": 401, "Bearer " + token.Reveal(): 400} {
		ev := lambdatest.Sample(t, "create-event")
		malformed["a body that is not base64"](&ev)
		ev.Headers["authorization"] = authorization
		resp := s.invoke(t, "create-event", ev)
		left--
		if resp.StatusCode != want || resp.Headers["X-RateLimit-Remaining"] != strconv.FormatInt(left, 10) {
			t.Errorf("%d %s %v, want %d", resp.StatusCode, resp.Body, resp.Headers, want)
		}
	}
}

func TestAHeaderThatTheAdapterSplitsIsReadWhole(t *testing.T) {
	s := newService(t)
	s.opts.ClientIPHeader = "X-Client-Ip"
	ev := lambdatest.Sample(t, "usage")
	ev.RawQueryString, ev.QueryStringParameters = "", nil
	ev.Headers["x-client-ip"] = "192.0.2.9, 192.0.2.2"
	if resp := s.invoke(t, "usage", ev); resp.StatusCode != 200 || !strings.Contains(resp.Body, `"address":"192.0.2.2"`) {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
	s.opts.ClientIPHeader = ""
	etag := s.invoke(t, "dashboard", lambdatest.Sample(t, "dashboard"))
	ev = lambdatest.Sample(t, "dashboard")
	ev.Headers["if-none-match"] = `"other", ` + etag.Headers["Etag"]
	if resp := s.invoke(t, "dashboard", ev); etag.Headers["Etag"] == "" || resp.StatusCode != 304 {
		t.Errorf("%d %v", resp.StatusCode, resp.Headers)
	}
}

// API Gateway decodes the path of GET /%65ntity, which it sends to the default route. A 405 would
// tell the client to use the very method that it used.
func TestAPathThatMatchesARouteOnlyAfterDecodingIs404(t *testing.T) {
	s := newService(t)
	ev := lambdatest.Sample(t, "not-found")
	ev.RequestContext.HTTP.Method, ev.RawPath = "GET", "/entity"
	if resp := s.invoke(t, "not-found", ev); resp.StatusCode != 404 || resp.Headers["Allow"] != "" {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
}

// The function of a path gets requests with any method, and methods are case-sensitive.
func TestAWrongMethodIs405(t *testing.T) {
	s := newService(t)
	for _, method := range []string{"DELETE", "get"} {
		ev := lambdatest.Sample(t, "list-entity")
		ev.RequestContext.HTTP.Method = method
		if resp := s.invoke(t, "list-entity", ev); resp.StatusCode != 405 || resp.Headers["Allow"] != "GET, HEAD" {
			t.Errorf("%s: %d %v %s", method, resp.StatusCode, resp.Headers, resp.Body)
		}
	}
}

func TestAResponseWithoutABodyHasNoContentType(t *testing.T) {
	s := newService(t)
	options := lambdatest.Sample(t, "list-entity")
	options.RequestContext.HTTP.Method = "OPTIONS"
	signOut := lambdatest.Sample(t, "dashboard")
	signOut.RequestContext.HTTP.Method, signOut.RawPath = "DELETE", "/dashboard/session"
	for name, ev := range map[string]events.APIGatewayV2HTTPRequest{"list-entity": options, "dashboard": signOut} {
		resp := s.invoke(t, name, ev)
		if contentType, ok := resp.Headers["Content-Type"]; resp.StatusCode != 204 || ok {
			t.Errorf("%s: %d, Content-Type %q", name, resp.StatusCode, contentType)
		}
	}
}

func TestAContentCodingCombinedWithIdentityIsRejected(t *testing.T) {
	s := newService(t)
	for coding, status := range map[string]int{"identity": 201, "identity, gzip": 415, "gzip, identity": 415} {
		ev := lambdatest.Sample(t, "create-event")
		ev.Body = `{"name":"n"}`
		ev.Headers["content-encoding"] = coding
		if resp := s.invoke(t, "create-event", ev); resp.StatusCode != status {
			t.Errorf("%s: %d %s", coding, resp.StatusCode, resp.Body)
		}
	}
}

// asRuntime returns how many bytes the Lambda runtime sends for a response with this body.
func asRuntime(t *testing.T, body []byte) int {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(body) //nolint:errcheck // the writer is a buffer
	})
	ev, err := json.Marshal(lambdatest.Sample(t, "list-entity"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := lambda.NewHandler(adapt(h, nil).Invoke).Invoke(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	return len(out)
}

// A body of the maximum size leaves room only for the headers.
func TestABodyFitsIfLambdaAcceptsIt(t *testing.T) {
	for _, tt := range []struct {
		unit    string
		encoded int // size of the unit in the runtime's JSON, in bytes
	}{
		{"a", 1}, {"<", 1}, {"&", 1}, {"é", 2}, {`"`, 2}, {`\`, 2}, {"\u2028", 6}, {"\x01", 6},
		{"\x8b\x8b\x8b", 4}, // not UTF-8, so base64
	} {
		most := (maxBody - 3) / tt.encoded // 3 for the quotes and the line break
		if tt.encoded == 4 {
			most = maxBody / tt.encoded
		}
		body := []byte(strings.Repeat(tt.unit, most))
		if n := asRuntime(t, body); !fits(body) || n > maxResponse || n < maxBody-10 {
			t.Errorf("%d times %q: fits %t, and the runtime sends %d bytes", most, tt.unit, fits(body), n)
		}
		if body = append(body, tt.unit...); fits(body) {
			t.Errorf("%d times %q fits", most+1, tt.unit)
		}
	}
}

// giant is a store whose entity is too large for a Lambda function's response.
type giant struct{ entity.Store }

func (giant) Get(context.Context, string, string) (entity.Entity, error) {
	return entity.Entity{ID: "giant", Attributes: record.Attributes(`{"a":"` + strings.Repeat("a", maxBody) + `"}`)}, nil
}

// If Lambda rejected the response, the client would get a 502. The log has the status that the
// client gets, and no record is charged.
func TestAResponseThatLambdaRejectsIsA500(t *testing.T) {
	s := newService(t)
	s.stores.Entities = giant{}
	var log bytes.Buffer
	s.opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	ev := lambdatest.Sample(t, "get-entity")
	delete(ev.Headers, "accept-encoding")
	resp := s.invoke(t, "get-entity", ev)
	if resp.StatusCode != 500 || !strings.Contains(resp.Body, "the response is too large") || !strings.Contains(resp.Headers["RateLimit"], `"records";r=200`) {
		t.Errorf("%d %v %.200s", resp.StatusCode, resp.Headers, resp.Body)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `"status":500`) || !strings.Contains(log.String(), "the response has 6") {
		t.Errorf("%d log lines: %.500s", n, &log)
	}
	ev.Headers["accept-encoding"] = "gzip"
	if resp := s.invoke(t, "get-entity", ev); resp.StatusCode != 200 || !resp.IsBase64Encoded {
		t.Errorf("compressed: %d %.200s", resp.StatusCode, resp.Body)
	}
}

type keyStore map[string]access.Key

func (s keyStore) Get(_ context.Context, id string) (access.Key, error) {
	if k, ok := s[id]; ok {
		return k, nil
	}
	return access.Key{}, access.ErrNotFound
}

type noLinks struct{}

func (noLinks) Link(context.Context, exportjob.File) (string, error) { return "", fs.ErrNotExist }

func (noLinks) Delete(context.Context, exportjob.File) error { return fs.ErrNotExist }
