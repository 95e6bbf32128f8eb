package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/entity"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// charges is a store that counts its calls. It panics if the Store inside it is nil.
type charges struct {
	ratelimit.Store
	calls int
}

func (s *charges) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	s.calls++
	return s.Store.Charge(ctx, key, costs)
}

// An export whose action panics is charged for no records.
func TestAPanicOfAnActionIsChargedOnce(t *testing.T) {
	for route, want := range map[string]string{
		"get-entity":    `"records";r=200;t=1, "requests";r=199;t=1`,
		"create-entity": `"imports";r=199;t=1, "requests";r=199;t=1`,
		"usage":         `"requests";r=199;t=1`,
	} {
		counters := &charges{Store: memory.NewCounters()}
		limiter, err := ratelimit.New(counters, ratelimit.Config{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		a := service{stores: untouchable, limiter: limiter}
		resp, l := invokeLogged(t, a, route, sample(t, route))
		if resp.StatusCode != 500 || resp.Headers["RateLimit"] != want || counters.calls != 1 {
			t.Errorf("%s: %d %v after %d charges, want RateLimit %s", route, resp.StatusCode, resp.Headers, counters.calls, want)
		}
		if !strings.HasPrefix(l.Error, "panic: ") || l.Level != "ERROR" || l.Metrics["Allowed"] != 1 {
			t.Errorf("%s: line %+v", route, l)
		}
	}
}

func TestAPanicOutsideOfAnActionIs500(t *testing.T) {
	for _, route := range []string{"list-entity", "create-entity", "usage"} {
		var log bytes.Buffer
		opts := options
		opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		limiter, err := ratelimit.New(&charges{}, ratelimit.Config{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		ev := sample(t, route)
		resp := serve(t, newFunction(t, route, service{stores: newAPI(t).stores, limiter: limiter}, opts), ev)
		checkDescribed(t, ev, resp)
		if resp.StatusCode != 500 || code(t, resp) != "internal_error" || resp.Headers["X-RateLimit-Remaining"] != "0" || resp.Headers["RateLimit"] != `"requests";r=0;t=1` {
			t.Errorf("%s: %d %v %s", route, resp.StatusCode, resp.Headers, resp.Body)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `"error":"panic: `) || !strings.Contains(log.String(), `"Route":"`+route+`"`) {
			t.Errorf("%s: %d log lines: %s", route, n, &log)
		}
	}
}

// hesitant is a counter store whose calls wait until the client has closed its half of the
// connection, and fail if that cancels their context.
type hesitant struct {
	ratelimit.Store
	closed <-chan struct{}
}

func (s hesitant) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	<-s.closed
	if ctx.Err() != nil {
		return ratelimit.Result{}, ctx.Err()
	}
	return s.Store.Charge(ctx, key, costs)
}

// When a client closes its half of a connection, net/http cancels the context of the request.
func TestARequestIsChargedAfterItsClientHasClosedItsHalf(t *testing.T) {
	a := newAPI(t)
	for target, status := range map[string]int{"/entity/ada": 404, "/openapi.yaml": 200} { // an export, and a route that is charged before its action
		closed := make(chan struct{})
		var err error
		if a.limiter, err = ratelimit.New(hesitant{memory.NewCounters(), closed}, ratelimit.Config{Now: now}); err != nil {
			t.Fatal(err)
		}
		server := listen(t, a)
		inner := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			go func() { <-r.Context().Done(); close(closed) }()
			inner.ServeHTTP(w, r)
		})
		resp := exchange(t, server, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n", true)
		if resp.StatusCode != status || !strings.Contains(resp.Headers["Ratelimit"], `"requests";r=199;`) {
			t.Errorf("%s: %d %v %s", target, resp.StatusCode, resp.Headers, resp.Body)
		}
	}
}

// Headers keep their case, and even a long response has a Content-Length instead of chunks.
func TestAResponseOnTheWire(t *testing.T) {
	a := newAPI(t)
	a.createEntities(t, 60)
	length := len(a.get(t, "list-entity", "/entity?limit=60").Body)
	server := listen(t, a)
	for _, tt := range []struct {
		request string
		lines   []string
		body    int // length in bytes
	}{
		{"GET /entity?limit=60", []string{"HTTP/1.1 200 OK", "X-RateLimit-Limit: 200", "X-RateLimit-Remaining: 140", `RateLimit-Policy: "records";q=200;w=1, "requests";q=200;w=1`, "Content-Type: application/json", fmt.Sprint("Content-Length: ", length)}, length},
		{"HEAD /entity?limit=60", []string{"HTTP/1.1 200 OK", "X-RateLimit-Remaining: 80", fmt.Sprint("Content-Length: ", length)}, 0},
		{"OPTIONS /entity", []string{"HTTP/1.1 204 No Content", "X-RateLimit-Remaining: 199"}, 0},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the response has been read
		if _, err := io.WriteString(conn, tt.request+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(text), "\r\n\r\n")
		for _, line := range tt.lines {
			if !strings.Contains(head+"\r\n", line+"\r\n") {
				t.Errorf("%s: the line %q is missing in %q", tt.request, line, head)
			}
		}
		if len(body) != tt.body || strings.Contains(head, "Transfer-Encoding") || strings.Count(head, "HTTP/1.1") != 1 {
			t.Errorf("%s: %q and a body of %d bytes, want %d", tt.request, head, len(body), tt.body)
		}
	}
}

type moody struct{ entity.Store }

func (s moody) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	if id == "bad" {
		panic(errors.New("bad"))
	}
	return s.Store.Get(ctx, workspace, id)
}

// Response buffers are reused, so one response could leak into another.
func TestResponsesDoNotMix(t *testing.T) {
	a := newRoomyAPI(t)
	a.stores.Entities = moody{a.stores.Entities}
	sizes := map[string]int{"small": 1, "medium": 5_000, "large": 200_000}
	for id, size := range sizes {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":%q,"attributes":{"a":%q}}`, id, strings.Repeat(id[:1], size)))
	}
	h := newFunction(t, "get-entity", a, options)
	get := func(id, coding string) *httptest.ResponseRecorder {
		r := requestOf(t, lambdatest.Event("GET", "/entity/"+id, "192.0.2.1", ""))
		r.Header.Set("Accept-Encoding", coding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	want := make(map[string]string)
	for id := range sizes {
		want[id] = get(id, "").Body.String()
	}
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := range 50 {
				id := []string{"small", "bad", "large", "nobody", "medium"}[(client+i)%5]
				coding := []string{"", "gzip"}[i%2]
				w := get(id, coding)
				body := w.Body.String()
				if w.Header().Get("Content-Encoding") == "gzip" {
					body = decompressed(t, body)
				}
				switch {
				case want[id] != "" && (w.Code != 200 || body != want[id]):
					t.Errorf("%s: %d %.100s", id, w.Code, body)
				case want[id] == "" && (w.Code < 404 || w.Header().Get("Vary") != "" || !strings.HasPrefix(body, `{"type":"about:blank"`) || strings.Count(body, "\n") != 1):
					t.Errorf("%s: %d %v %.100s", id, w.Code, w.Header(), body)
				}
			}
		})
	}
	clients.Wait()
}

// A request without an address is not charged.
func TestARequestWithoutAnAddressShowsTheRulesOfItsRoute(t *testing.T) {
	for route, want := range map[string]string{
		"list-entity":  `"records";q=200;w=1, "requests";q=200;w=1`,
		"create-event": `"imports";q=200;w=1, "requests";q=200;w=1`,
		"usage":        `"requests";q=200;w=1`,
	} {
		a := withRows(t, untouched{t}, rows{})
		ev := sample(t, route)
		ev.RequestContext.HTTP.SourceIP = ""
		resp, l := invokeLogged(t, a, route, ev)
		if resp.StatusCode != 400 || code(t, resp) != "invalid_client_address" || resp.Headers["RateLimit-Policy"] != want || resp.Headers["X-RateLimit-Remaining"] != "0" || resp.Headers["Retry-After"] != "" {
			t.Errorf("%s: %d %v %s", route, resp.StatusCode, resp.Headers, resp.Body)
		}
		if l.Status != 400 || l.Metrics["Allowed"] != 0 || l.Metrics["ChargeFailures"] != 0 || l.Metrics["ChargeLatency"] != 0 {
			t.Errorf("%s: line %+v", route, l)
		}
	}
}
