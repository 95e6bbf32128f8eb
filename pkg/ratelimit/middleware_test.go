package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// records is a handler that reports n records, where n is the value of the query parameter
// "limit". It counts its runs.
type records struct{ runs int }

func (h *records) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.runs++
	n, err := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64)
	if err != nil {
		ratelimit.SetRecords(w, 99) // ignored, because the request fails
		http.Error(w, "bad limit", http.StatusBadRequest)
		return
	}
	ratelimit.SetRecords(w, n)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%d records", n)
}

// middleware returns a Middleware for a route of the given class. Requests with the
// path /unknown have no address.
func middleware(t *testing.T, store ratelimit.Store, class ratelimit.Class) ratelimit.Middleware {
	l, _ := newLimiter(t, store, ratelimit.Limits{})
	return ratelimit.Middleware{Limiter: l, Request: func(r *http.Request) (ratelimit.Request, error) {
		req := ratelimit.Request{Route: ratelimit.Route{Name: "list", Class: class}}
		if r.URL.Path == "/unknown" {
			return req, errNoAddress
		}
		asked, _ := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64)
		req.Address, req.Asked = "192.0.2.1", asked
		return req, nil
	}}
}

var errNoAddress = errors.New("no address")

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

// values returns the values of the header called name. It does not convert the name to
// its canonical form.
func values(w *httptest.ResponseRecorder, name string) []string { return w.Header()[name] }

func TestAfterChargesTheRecordsOfTheResponse(t *testing.T) {
	next := &records{}
	h := middleware(t, memory.NewCounters(), ratelimit.Export).After(next)
	for i, step := range []struct {
		target    string
		status    int
		remaining string
		runs      int
	}{
		{"/?limit=150", 200, "50", 1},
		{"/?limit=x", 400, "50", 2},
		{"/?limit=60", 429, "0", 3},
		{"/?limit=60", 429, "0", 3}, // the request is known not to fit, so the handler does not run
		{"/?limit=99", 429, "0", 3},
		{"/?limit=51", 429, "0", 3},
		{"/?limit=50", 200, "0", 4},
		{"/?limit=1", 429, "0", 4},
	} {
		w := get(h, step.target)
		if got := values(w, "X-RateLimit-Remaining"); w.Code != step.status || len(got) != 1 || got[0] != step.remaining || next.runs != step.runs {
			t.Errorf("step %d, %s: status %d, %v remaining, %d runs; want %+v", i, step.target, w.Code, got, next.runs, step)
		}
		if (w.Header().Get("Retry-After") == "1") != (step.status == 429) {
			t.Errorf("step %d: Retry-After %q", i, w.Header().Get("Retry-After"))
		}
	}
	if w := get(h, "/?limit=0"); w.Body.String() != "0 records" || w.Header().Get("Content-Type") != "text/plain" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
}

func TestBeforeRunsOnlyAdmittedRequests(t *testing.T) {
	next := &records{}
	h := middleware(t, memory.NewCounters(), ratelimit.Import).Before(next)
	for range 250 {
		get(h, "/?limit=1")
	}
	if next.runs != 200 {
		t.Errorf("%d of 250 requests ran, want 200", next.runs)
	}
}

// If Refuse is nil, refusals are plain text.
func TestMiddlewareRefusesRequestsThatItCannotCharge(t *testing.T) {
	next := &records{}
	m := middleware(t, brokenStore{}, ratelimit.Export)
	for name, h := range map[string]http.Handler{"Before": m.Before(next), "After": m.After(next)} {
		if w := get(h, "/?limit=1"); w.Code != 503 || w.Header().Get("Retry-After") != "1" || len(values(w, "X-RateLimit-Limit")) != 1 || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if w := get(h, "/unknown"); w.Code != 400 || len(values(w, "X-RateLimit-Limit")) != 1 || w.Header().Get("Retry-After") != "" || w.Body.Len() == 0 {
			t.Errorf("%s without an address: %d %v", name, w.Code, w.Header())
		}
	}
}

// exhausted is a Store whose counters have all reached their limits.
type exhausted struct{}

func (exhausted) Charge(_ context.Context, _ ratelimit.Key, costs []ratelimit.Cost) (result ratelimit.Result, err error) {
	for _, c := range costs {
		result.Used = append(result.Used, c.Rule.Limit)
	}
	return result, nil
}

// Observe is called once for each request, after the decision and before the response
// is written. Refuse writes each refusal.
func TestMiddlewareHooks(t *testing.T) {
	tests := []struct {
		name     string
		store    ratelimit.Store
		fallback ratelimit.Store
		before   int // number of requests before the request that is checked
		target   string
		status   int // status of the refusal, or 0 if the request is not refused
		want     ratelimit.Observation
	}{
		{"admitted", memory.NewCounters(), nil, 0, "/?limit=1", 0, ratelimit.Observation{Charged: true}},
		{"admitted, but the handler fails", memory.NewCounters(), nil, 0, "/?limit=x", 0, ratelimit.Observation{Charged: true}},
		{"refused by the store", exhausted{}, nil, 0, "/?limit=1", 429, ratelimit.Observation{Charged: true}},
		{"refused without a call", exhausted{}, nil, 1, "/?limit=1", 429, ratelimit.Observation{Decision: ratelimit.Decision{Local: true}}},
		{"without an address", memory.NewCounters(), nil, 0, "/unknown", 400, ratelimit.Observation{Err: errNoAddress}},
		{"counters unreachable", brokenStore{}, nil, 0, "/?limit=1", 503, ratelimit.Observation{Charged: true, Err: errUnreachable}},
		{"counters unreachable, admitted by the fallback", brokenStore{}, memory.NewCounters(), 0, "/?limit=1", 0,
			ratelimit.Observation{Charged: true, Decision: ratelimit.Decision{Degraded: errUnreachable}}},
		{"counters unreachable, refused by the fallback", brokenStore{}, exhausted{}, 0, "/?limit=1", 429,
			ratelimit.Observation{Charged: true, Decision: ratelimit.Decision{Degraded: errUnreachable}}},
	}
	for _, tt := range tests {
		for _, class := range []ratelimit.Class{ratelimit.Import, ratelimit.Export} {
			t.Run(fmt.Sprintf("%s, %s", tt.name, class), func(t *testing.T) {
				m := middleware(t, tt.store, class)
				l, err := ratelimit.New(tt.store, ratelimit.Config{Fallback: tt.fallback, Now: (&clock{time.Unix(1_800_000_000, 0)}).now})
				if err != nil {
					t.Fatal(err)
				}
				m.Limiter = l
				limit := ratelimit.Middleware.Before
				if class == ratelimit.Export {
					limit = ratelimit.Middleware.After
				}
				next := &records{}
				for range tt.before {
					get(limit(m, next), tt.target)
				}

				w := httptest.NewRecorder()
				var observed []ratelimit.Observation
				refusals := 0
				m.Observe = func(_ *http.Request, o ratelimit.Observation) {
					if w.Body.Len() > 0 || refusals > 0 {
						t.Error("Observe was called after the response was written")
					}
					observed = append(observed, o)
				}
				m.Refuse = func(rw http.ResponseWriter, _ *http.Request, d ratelimit.Decision, status int, err error) {
					refusals++
					if status != tt.status || !errors.Is(err, tt.want.Err) || d.Allowed {
						t.Errorf("status %d, error %v, decision %+v", status, err, d)
					}
					if len(values(w, "RateLimit")) != 1 || (w.Header().Get("Retry-After") == "1") != (status != 400) {
						t.Errorf("headers %v", w.Header())
					}
					rw.WriteHeader(http.StatusTeapot)
				}
				limit(m, next).ServeHTTP(w, httptest.NewRequest("GET", tt.target, nil))

				if refused := tt.status != 0; refusals > 1 || refused != (refusals == 1) || refused != (w.Code == http.StatusTeapot) {
					t.Errorf("%d refusals, status %d", refusals, w.Code)
				}
				if len(values(w, "X-RateLimit-Limit")) != 1 || len(values(w, "RateLimit-Policy")) != 1 {
					t.Errorf("headers %v", w.Header())
				}
				if len(observed) != 1 {
					t.Fatalf("%d observations, want 1", len(observed))
				}
				got, want := observed[0], tt.want
				if got.Charged != want.Charged || got.Decision.Local != want.Decision.Local || got.Decision.Allowed != (tt.status == 0) ||
					!errors.Is(got.Err, want.Err) || !errors.Is(got.Decision.Degraded, want.Decision.Degraded) {
					t.Errorf("observed %+v, want %+v", got, want)
				}
				if got.Charged && got.Latency <= 0 {
					t.Errorf("latency %v", got.Latency)
				}
			})
		}
	}
}

// If Request returns an error together with a route, the headers show the rules of
// the route.
func TestARequestWithoutAnAddressShowsTheRulesOfItsRoute(t *testing.T) {
	for class, want := range map[ratelimit.Class]string{
		ratelimit.Export:  `"records";q=200;w=1, "requests";q=200;w=1`,
		ratelimit.Import:  `"imports";q=200;w=1, "requests";q=200;w=1`,
		ratelimit.General: `"requests";q=200;w=1`,
		"":                `"requests";q=200;w=1`,
	} {
		w := get(middleware(t, memory.NewCounters(), class).After(&records{}), "/unknown")
		if got := values(w, "RateLimit-Policy"); len(got) != 1 || got[0] != want || values(w, "X-RateLimit-Remaining")[0] != "0" {
			t.Errorf("%q: %v", class, w.Header())
		}
	}
}

// serve serves h over TCP, because net/http changes headers when it sends them.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// exchange sends the text of a request to server, closes the client's half of the
// connection and returns the response.
func exchange(t *testing.T, server *httptest.Server, raw string) string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()               //nolint:errcheck // the response was read to the end
	io.WriteString(conn, raw)        //nolint:errcheck // if the write fails, the response is missing
	conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // if CloseWrite fails, the response is missing
	response, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(response)
}

func TestAHeldResponseIsSentAsItWasWritten(t *testing.T) {
	body := strings.Repeat("0123456789", 1000)
	tests := []struct {
		name string
		next http.HandlerFunc
		want []string // lines of the response
		body string
	}{
		{"a large body has a Content-Length, and headers keep their case", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-MiXed-Case"] = []string{"a", "b"}
			for i := range 10 {
				io.WriteString(w, body[i*1000:(i+1)*1000]) //nolint:errcheck // never fails
			}
		}, []string{"HTTP/1.1 200 OK", "X-MiXed-Case: a", "X-MiXed-Case: b", "Content-Length: 10000", "X-RateLimit-Remaining: 199", "Content-Type: text/plain; charset=utf-8"}, body},
		{"the handler's Content-Length is kept", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			io.WriteString(w, "abc") //nolint:errcheck // never fails
		}, []string{"HTTP/1.1 200 OK", "Content-Length: 3"}, "abc"},
		{"the first status is sent", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusOK)
			io.WriteString(w, "none") //nolint:errcheck // never fails
		}, []string{"HTTP/1.1 404 Not Found", "Content-Length: 4"}, "none"},
		{"nothing is written", func(http.ResponseWriter, *http.Request) {},
			[]string{"HTTP/1.1 200 OK", "Content-Length: 0"}, ""},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			[]string{"HTTP/1.1 204 No Content"}, ""},
		{"not modified", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		}, []string{"HTTP/1.1 304 Not Modified", `Etag: "1"`}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, middleware(t, memory.NewCounters(), ratelimit.Export).After(tt.next))
			head, body, _ := strings.Cut(exchange(t, server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), "\r\n\r\n")
			lines := strings.Split(head, "\r\n")
			for _, want := range tt.want {
				if !slices.Contains(lines, want) {
					t.Errorf("line %q is missing in %q", want, lines)
				}
			}
			if strings.Contains(head, "Transfer-Encoding") || strings.Count(head, "HTTP/1.1") != 1 {
				t.Errorf("head %q", head)
			}
			if body != tt.body {
				t.Errorf("body of %d bytes, want %d", len(body), len(tt.body))
			}
		})
	}
}

// Buffers of responses are reused. No part of a response must appear in another
// response.
func TestHeldResponsesDoNotMix(t *testing.T) {
	m := middleware(t, memory.NewCounters(), ratelimit.Export)
	h := m.After(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loud":
			w.Header().Set("X-Loud", "1")
			ratelimit.SetRecords(w, 7)
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, strings.Repeat("loud", 1<<r.ContentLength)) //nolint:errcheck // never fails
		case "/panic":
			w.Header().Set("X-Loud", "1")
			ratelimit.SetRecords(w, 7)
			w.WriteHeader(http.StatusCreated)
			panic("loud")
		}
	}))
	for _, target := range []string{"/loud", "/panic", "/quiet"} {
		for size := range int64(20) {
			func() {
				defer func() {
					if v := recover(); (v != nil) != (target == "/panic") {
						t.Errorf("%s: panic %v", target, v)
					}
				}()
				r := httptest.NewRequest("GET", target, nil)
				r.ContentLength = size
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if target == "/quiet" && (w.Code != 200 || w.Body.Len() > 0 || w.Header().Get("X-Loud") != "") {
					t.Errorf("status %d, %d bytes, headers %v", w.Code, w.Body.Len(), w.Header())
				}
			}()
		}
	}
	// The 20 loud responses cost 7 records and 1 request each. The 20 quiet responses cost
	// only 1 request each. The panics cost nothing.
	w := get(h, "/quiet")
	if got := values(w, "RateLimit")[0]; got != `"records";r=60;t=1, "requests";r=159;t=1` {
		t.Errorf("RateLimit %s", got)
	}
}

// If the inner handler panics, the panic reaches the caller, and no response is written.
// Middleware.Before has already charged and observed the request by then.
// Middleware.After has done neither.
func TestAPanicReachesTheCaller(t *testing.T) {
	for _, class := range []ratelimit.Class{ratelimit.Import, ratelimit.Export} {
		store := &counting{Store: memory.NewCounters()}
		m := middleware(t, store, class)
		observed := 0
		m.Observe = func(*http.Request, ratelimit.Observation) { observed++ }
		limit, charges := m.Before, 1
		if class == ratelimit.Export {
			limit, charges = m.After, 0
		}
		h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }))
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler {
					t.Errorf("%s: recovered %v", class, v)
				}
			}()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		}()
		if observed != charges || store.calls.Load() != int64(charges) || w.Body.Len() > 0 {
			t.Errorf("%s: %d observations, %d charges, body %q", class, observed, store.calls.Load(), w.Body)
		}
	}
}

// SetRecords unwraps writers to find the buffered response. If no response is
// buffered, it has no effect.
func TestSetRecordsFindsTheHeldResponse(t *testing.T) {
	for _, tt := range []struct {
		name string
		wrap func(http.ResponseWriter) http.ResponseWriter
		want string
	}{
		{"the response itself", func(w http.ResponseWriter) http.ResponseWriter { return w }, "150"},
		{"a writer that unwraps", func(w http.ResponseWriter) http.ResponseWriter { return unwrapper{unwrapper{w}} }, "150"},
		{"another writer", func(http.ResponseWriter) http.ResponseWriter { return httptest.NewRecorder() }, "199"},
	} {
		h := middleware(t, memory.NewCounters(), ratelimit.Export).After(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ratelimit.SetRecords(tt.wrap(w), 50)
		}))
		if got := values(get(h, "/"), "X-RateLimit-Remaining"); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s: %v remaining, want %s", tt.name, got, tt.want)
		}
	}
}

type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// hesitant is a slow Store that gives up when its context is done.
type hesitant struct{ ratelimit.Store }

func (s hesitant) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	select {
	case <-time.After(50 * time.Millisecond):
		return s.Store.Charge(ctx, key, costs)
	case <-ctx.Done():
		return ratelimit.Result{}, ctx.Err()
	}
}

// net/http cancels the context of a request when the client closes its half of the
// connection. The request is still charged, and the client gets the response.
func TestAHalfClosedConnectionGetsItsResponse(t *testing.T) {
	for _, class := range []ratelimit.Class{ratelimit.Import, ratelimit.Export} {
		m := middleware(t, hesitant{memory.NewCounters()}, class)
		limit := m.Before
		if class == ratelimit.Export {
			limit = m.After
		}
		server := serve(t, limit(&records{}))
		for _, remaining := range []string{"199", "198"} {
			got := exchange(t, server, "GET /?limit=1 HTTP/1.1\r\nHost: a\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got, "\r\nX-RateLimit-Remaining: "+remaining+"\r\n") || !strings.HasSuffix(got, "1 records") {
				t.Errorf("%s: %q", class, got)
			}
		}
	}
}

func ExampleMiddleware() {
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{
		Limits: ratelimit.Limits{Records: 100},
		Now:    func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	route := ratelimit.Route{Name: "list-song", Class: ratelimit.Export}
	m := ratelimit.Middleware{Limiter: limiter, Request: func(r *http.Request) (ratelimit.Request, error) {
		// A server uses the host of r.RemoteAddr.
		address, err := ratelimit.ParseAddress("192.0.2.1", ratelimit.DefaultIPv6Prefix)
		return ratelimit.Request{Address: address, Route: route}, err
	}}
	list := m.After(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ratelimit.SetRecords(w, 60)
		fmt.Fprint(w, "sixty songs")
	}))
	for range 2 {
		w := httptest.NewRecorder()
		list.ServeHTTP(w, httptest.NewRequest("GET", "/song", nil))
		fmt.Println(w.Code, values(w, "RateLimit")[0])
	}
	// Output:
	// 200 "records";r=40;t=1, "requests";r=199;t=1
	// 429 "records";r=40;t=1, "requests";r=199;t=1
}
