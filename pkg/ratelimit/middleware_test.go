package ratelimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
)

// records answers with as many records as the query says, and counts its runs.
type records struct{ runs int }

func (h *records) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.runs++
	n, err := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64)
	if err != nil {
		http.Error(w, "bad limit", http.StatusBadRequest)
		return
	}
	ratelimit.SetRecords(w, n)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%d records", n)
}

func middleware(t *testing.T, store ratelimit.Store, class ratelimit.Class) ratelimit.Middleware {
	l, _ := newLimiter(t, store, ratelimit.Limits{})
	return ratelimit.Middleware{Limiter: l, Request: func(r *http.Request) (ratelimit.Request, error) {
		req := ratelimit.Request{Route: ratelimit.NewRoute("list", class)}
		if r.RemoteAddr == "" {
			return req, errors.New("no address")
		}
		asked, _ := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64)
		req.Address, req.Asked = "192.0.2.1", asked
		return req, nil
	}}
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

// values are the values of a header under its exact name.
func values(w *httptest.ResponseRecorder, name string) []string { return w.Header()[name] }

func TestAfterChargesWhatTheResponseShows(t *testing.T) {
	next := &records{}
	h := middleware(t, memstore.New(), ratelimit.Export).After(next)
	for i, step := range []struct {
		target    string
		status    int
		remaining string
		runs      int
	}{
		{"/?limit=150", 200, "50", 1},
		{"/?limit=x", 400, "50", 2},
		{"/?limit=60", 429, "0", 3},
		{"/?limit=60", 429, "0", 3}, // known by now, so not even read
		{"/?limit=99", 429, "0", 3},
		{"/?limit=50", 200, "0", 4},
		{"/?limit=1", 429, "0", 5},
	} {
		w := get(h, step.target)
		if got := values(w, "X-RateLimit-Remaining"); w.Code != step.status || len(got) != 1 || got[0] != step.remaining || next.runs != step.runs {
			t.Errorf("step %d, %s: status %d, %v left, %d runs; want %+v", i, step.target, w.Code, got, next.runs, step)
		}
		if (w.Header().Get("Retry-After") == "1") != (step.status == 429) {
			t.Errorf("step %d: Retry-After %q", i, w.Header().Get("Retry-After"))
		}
	}
	if w := get(h, "/?limit=0"); w.Body.String() != "0 records" || w.Header().Get("Content-Type") != "text/plain" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
}

func TestBeforeRunsOnlyWhatPasses(t *testing.T) {
	next := &records{}
	h := middleware(t, memstore.New(), ratelimit.Import).Before(next)
	for range 250 {
		get(h, "/?limit=1")
	}
	if next.runs != 200 {
		t.Errorf("%d of 250 requests ran, want 200", next.runs)
	}
}

func TestMiddlewareAnswersWhatCannotBeDecided(t *testing.T) {
	next := &records{}
	m := middleware(t, &brokenStore{}, ratelimit.Export)
	for name, h := range map[string]http.Handler{"Before": m.Before(next), "After": m.After(next)} {
		if w := get(h, "/?limit=1"); w.Code != 503 || w.Header().Get("Retry-After") != "1" || len(values(w, "X-RateLimit-Limit")) != 1 {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		r := httptest.NewRequest("GET", "/?limit=1", nil)
		r.RemoteAddr = ""
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 400 || len(values(w, "X-RateLimit-Limit")) != 1 {
			t.Errorf("%s without an address: %d %v", name, w.Code, w.Header())
		}
	}
}

func ExampleMiddleware() {
	limiter, err := ratelimit.New(memstore.New(), ratelimit.Config{
		Limits: ratelimit.Limits{Records: 100},
		Now:    func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	route := ratelimit.NewRoute("list-song", ratelimit.Export)
	m := ratelimit.Middleware{Limiter: limiter, Request: func(r *http.Request) (ratelimit.Request, error) {
		// In a server: the host of r.RemoteAddr.
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
