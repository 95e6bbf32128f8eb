package ratelimit_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

func Example() {
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	address, err := ratelimit.ParseAddress("::ffff:192.0.2.1", ratelimit.DefaultIPv6Prefix)
	if err != nil {
		panic(err)
	}
	subject := limiter.Subject(nil, ratelimit.Caller{Address: address}) // without rows of limits and API keys
	route := ratelimit.Route{Name: "list-entity", Class: ratelimit.Export}
	for _, records := range []int64{150, 60, 50} {
		d, err := limiter.Charge(context.Background(), ratelimit.Request{
			Subject: subject, Route: route, Records: records,
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(records, d.Allowed, d.Violated(), d.Remaining())
	}
	// Output:
	// 150 true [] 50
	// 60 false [records] 0
	// 50 true [] 0
}

func requestOf(limiter *ratelimit.Limiter, r *http.Request, route ratelimit.Route) (ratelimit.Request, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ratelimit.Request{}, err
	}
	address, err := ratelimit.ParseAddress(host, ratelimit.DefaultIPv6Prefix)
	return ratelimit.Request{Subject: limiter.Subject(nil, ratelimit.Caller{Address: address}), Route: route}, err
}

// passes reports whether the request may pass. It sets the rate limit headers, and if the
// request is refused, it writes the response.
func passes(w http.ResponseWriter, d ratelimit.Decision, err error) bool {
	d.SetHeaders(w.Header())
	if d.Allowed {
		return true
	}
	if d.Blocked {
		http.Error(w, "the address is blocked", http.StatusForbidden)
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(ratelimit.RetryAfter))
	if err != nil {
		http.Error(w, "the counters cannot be reached", http.StatusServiceUnavailable)
	} else {
		http.Error(w, "the limit is reached", http.StatusTooManyRequests)
	}
	return false
}

func show(w *httptest.ResponseRecorder) {
	fmt.Println(w.Code, w.Header()["RateLimit"][0]) //nolint:staticcheck // SetHeaders does not use the canonical form
}

// A server charges an import before it stores anything.
func ExampleLimiter_Charge() {
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{
		Limits: ratelimit.Limits{Imports: 1},
		Now:    func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	createSong := func(w http.ResponseWriter, r *http.Request) {
		request, err := requestOf(limiter, r, ratelimit.Route{Name: "create-song", Class: ratelimit.Import})
		if err != nil {
			http.Error(w, "no address", http.StatusBadRequest)
			return
		}
		// Charge even if the client has already closed its half of the connection.
		d, err := limiter.Charge(context.WithoutCancel(r.Context()), request)
		if !passes(w, d, err) {
			return
		}
		w.WriteHeader(http.StatusCreated) // a real server would store the song first
	}
	for range 2 {
		w := httptest.NewRecorder()
		createSong(w, httptest.NewRequest("POST", "/create_song", nil))
		show(w)
	}
	// Output:
	// 201 "imports";r=0;t=1, "requests";r=199;t=1
	// 429 "imports";r=0;t=1, "requests";r=199;t=1
}

// A server charges an export for the records found, before sending them. If the request is
// known not to fit, the server reads nothing.
func ExampleLimiter_Precheck() {
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{
		Limits: ratelimit.Limits{Records: 5},
		Now:    func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	read := func() []string {
		fmt.Println("reads the songs")
		return []string{"Come Together", "Something", "Oh! Darling"}
	}
	listSongs := func(w http.ResponseWriter, r *http.Request) {
		request, err := requestOf(limiter, r, ratelimit.Route{Name: "list-song", Class: ratelimit.Export})
		if err != nil {
			http.Error(w, "no address", http.StatusBadRequest)
			return
		}
		request.Records = 4 // the most songs that a page can have
		d, known := limiter.Precheck(request)
		if known && !passes(w, d, nil) {
			return
		}
		songs := read()
		if !known { // if known, ActionObserve let the request pass, so it must not be charged
			request.Records = int64(len(songs))
			d, err = limiter.Charge(context.WithoutCancel(r.Context()), request)
			if !passes(w, d, err) {
				return
			}
		}
		fmt.Fprint(w, songs)
	}
	for range 3 {
		w := httptest.NewRecorder()
		listSongs(w, httptest.NewRequest("GET", "/song", nil))
		show(w)
	}
	// Output:
	// reads the songs
	// 200 "records";r=2;t=1, "requests";r=199;t=1
	// reads the songs
	// 429 "records";r=2;t=1, "requests";r=199;t=1
	// 429 "records";r=2;t=1, "requests";r=199;t=1
}
