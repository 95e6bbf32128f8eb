package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
)

// listen serves the API over TCP, with a short read timeout.
func listen(t *testing.T, a service) *httptest.Server {
	t.Helper()
	h, err := httpapi.New(a.limiter, a.stores, options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 500*time.Millisecond, 10*time.Second
	server.Config.DisableGeneralOptionsHandler = true
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// exchange sends a raw request over a new connection and reads the response. With halfClose, it
// closes the client's half of the connection after the request.
func exchange(t *testing.T, server *httptest.Server, text string, halfClose bool) events.APIGatewayV2HTTPResponse {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the response has been read
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if halfClose {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read below
	out := events.APIGatewayV2HTTPResponse{StatusCode: resp.StatusCode, Headers: make(map[string]string)}
	for name := range resp.Header {
		out.Headers[name] = resp.Header.Get(name)
	}
	var body strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&body); err != nil {
		t.Fatalf("%.60q: read the body: %v", text, err)
	}
	out.Body = body.String()
	return out
}

func TestABodyThatDoesNotArriveWholeStoresNothing(t *testing.T) {
	const header = "POST /create_entity HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, tt := range map[string]struct {
		text      string
		halfClose bool
		status    int
		code      string
	}{
		"cut off":         {header + "Content-Length: 30\r\n\r\n{\"id\":\"a\"}", true, 400, "incomplete_body"},
		"a bad chunk":     {header + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n", false, 400, "incomplete_body"},
		"chunks cut off":  {header + "Transfer-Encoding: chunked\r\n\r\na\r\n{\"id\":\"a\"}\r\n", true, 400, "incomplete_body"},
		"stalled":         {header + "Content-Length: 30\r\n\r\n{\"id\":\"a\"}", false, 408, "request_timeout"},
		"stalled chunks":  {header + "Transfer-Encoding: chunked\r\n\r\na\r\n{\"id\":\"a\"}\r\n", false, 408, "request_timeout"},
		"too many chunks": {header + "Transfer-Encoding: chunked\r\n\r\n40001\r\n" + strings.Repeat(" ", 0x40001) + "\r\n0\r\n\r\n", false, 413, "body_too_large"},
		"too long":        {header + "Content-Length: 262145\r\n\r\n", false, 413, "body_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			resp := exchange(t, listen(t, a), tt.text, tt.halfClose)
			if resp.StatusCode != tt.status || !strings.Contains(resp.Body, `"code":"`+tt.code+`"`) || resp.Headers["Ratelimit"] == "" {
				t.Errorf("%d %v %s, want %d %s", resp.StatusCode, resp.Headers, resp.Body, tt.status, tt.code)
			}
			ev := sample(t, "create-entity")
			checkDescribed(t, ev, resp)
			page, err := a.stores.Entities.List(t.Context(), "default", entity.Query{Limit: 10})
			if err != nil || len(page.Records) != 0 {
				t.Errorf("stored %v, %v", page.Records, err)
			}
		})
	}
}

type slowly struct {
	io.Reader
	after time.Duration
}

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(s.after)
	return s.Reader.Read(b)
}

// A batch of 1 MB takes 5 s to arrive at 1.7 Mbit/s, so the timeout of the action must not start
// before the body has arrived.
func TestABodyMayTakeLongerThanItsAction(t *testing.T) {
	for route, body := range map[string]string{"create-event": `{"id":"a","name":"n"}`, "create-events": `{"events":[{"id":"a","name":"n"}]}`, "upsert-entities": `{"entities":[{"id":"a"}]}`} {
		a := newAPI(t)
		synctest.Test(t, func(t *testing.T) {
			r := requestOf(t, lambdatest.Event("POST", "/"+strings.ReplaceAll(route, "-", "_"), "192.0.2.1", body))
			r.Body = io.NopCloser(slowly{strings.NewReader(body), 10 * time.Second})
			if resp := serveHTTP(newFunction(t, route, a, options), r); resp.StatusCode != 201 {
				t.Errorf("%s: %d %s", route, resp.StatusCode, resp.Body)
			}
		})
	}
}

// slowStore delays each Get, which fails if the context ends in the meantime.
type slowStore struct{ entity.Store }

func (s slowStore) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	select {
	case <-ctx.Done():
		return entity.Entity{}, ctx.Err()
	case <-time.After(200 * time.Millisecond):
		return s.Store.Get(ctx, workspace, id)
	}
}

func TestAClientThatClosesItsSendingHalfGetsItsResponse(t *testing.T) {
	a := newAPI(t)
	a.stores.Entities = slowStore{a.stores.Entities}
	server := listen(t, a)
	create := "POST /create_entity HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"id\":\"ada\"}"
	if resp := exchange(t, server, create, true); resp.StatusCode != 201 {
		t.Errorf("create: %d %s", resp.StatusCode, resp.Body)
	}
	if resp := exchange(t, server, "GET /entity/ada HTTP/1.1\r\nHost: localhost\r\n\r\n", true); resp.StatusCode != 200 {
		t.Errorf("get: %d %s", resp.StatusCode, resp.Body)
	}
}

// If http.ServeMux would redirect or reject a request, the default route responds instead, with
// rate limit headers.
func TestRequestsThatServeMuxTreatsSpecially(t *testing.T) {
	server := listen(t, newAPI(t))
	for _, tt := range []struct {
		line   string
		status int
		allow  string
	}{
		{"GET //entity", 404, ""},
		{"GET /entity/../event", 404, ""},
		{"GET /./entity", 404, ""},
		{"GET /entity/", 404, ""},
		{"GET /entity/..", 404, ""},
		{"GET /dashboard/", 404, ""},
		{"GET /dashboard//app.js", 404, ""},
		{"GET /entity/a%2Fb", 400, ""},
		{"GET /entity/a/b", 404, ""},
		{"HEAD /entity", 200, ""},
		{"HEAD /create_event", 405, "POST"},
		{"HEAD /nowhere", 404, ""},
		{"PUT /entity", 405, "GET, HEAD"},
		{"OPTIONS /create_event", 204, "POST, OPTIONS"},
		{"OPTIONS *", 404, ""},
		{"CONNECT localhost:80", 404, ""},
		{"GET http://localhost/entity", 200, ""},
	} {
		resp := exchange(t, server, tt.line+" HTTP/1.1\r\nHost: localhost\r\n\r\n", false)
		if resp.StatusCode != tt.status || resp.Headers["Allow"] != tt.allow || resp.Headers["X-Ratelimit-Remaining"] == "" {
			t.Errorf("%s: %d %v, want %d, Allow %q", tt.line, resp.StatusCode, resp.Headers, tt.status, tt.allow)
		}
	}
}

func TestTheLinkHeaderIsAPathEvenForAnAbsoluteURI(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"a", "b"} {
		a.post(t, "create-entity", `{"id":"`+id+`"}`)
	}
	server := listen(t, a)
	for _, target := range []string{"/entity?limit=1", "http://localhost/entity?limit=1"} {
		resp := exchange(t, server, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target), false)
		if !strings.HasPrefix(resp.Headers["Link"], "</entity?cursor=") {
			t.Errorf("%s: Link: %s", target, resp.Headers["Link"])
		}
	}
}

func TestAMalformedRequestIsChargedLikeItsRoute(t *testing.T) {
	a := newAPI(t)
	h, err := httpapi.NewFunction("create-event", a.limiter, a.stores, options)
	if err != nil {
		t.Fatal(err)
	}
	for method, limits := range map[string]string{"POST": `"imports";r=199;t=1, "requests";r=199;t=1`, "PATCH": `"requests";r=199;t=1`} {
		ev := sample(t, "create-event")
		resp := serve(t, h.Malformed("create-event", method), ev)
		if resp.StatusCode != 400 || !strings.Contains(resp.Body, `"malformed_request"`) || resp.Headers["RateLimit"] != limits {
			t.Errorf("%s: %d %v %s", method, resp.StatusCode, resp.Headers, resp.Body)
		}
		checkDescribed(t, ev, resp)
	}
}
