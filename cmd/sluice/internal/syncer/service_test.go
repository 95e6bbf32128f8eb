package syncer

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/test/boltstores"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

const workspace = "default"

// service serves lists of records. Tests change its stores and its clock.
type service struct {
	source   string // Sluice-Source header of the response to /export_job; reset for each run
	url      string
	now      time.Time
	rng      *rand.Rand
	entities entity.Store
	events   event.Store
	requests atomic.Int64
	onGet    func(request int64) (ok bool) // called before each request; the request fails if ok is false
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), rng: rand.New(rand.NewPCG(1, 2)), onGet: func(int64) bool { return true }}
	clock := func() time.Time { return s.now }
	stores, counters := boltstores.New(t, clock)
	s.entities, s.events = stores.Entities, stores.Events
	limiter, err := ratelimit.New(counters, ratelimit.Config{Limits: ratelimit.Limits{Records: 1_000_000, Requests: 900}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, name := range map[string]string{"/entity": "list-entity", "/event": "list-event"} {
		api, err := httpapi.NewFunction(name, limiter, stores, httpapi.Options{
			Config: httpapi.Config{AccessOff: true}, Logger: slog.New(slog.DiscardHandler), Now: clock,
		})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(path, api)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", s.now.Format(http.TimeFormat))
		if r.URL.Path == "/export_job" { // sent by client.Client.Source
			w.Header().Set("Sluice-Source", s.source)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if !s.onGet(s.requests.Add(1)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// change makes n random changes.
func (s *service) change(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.now = s.now.Add(time.Duration(s.rng.IntN(1500)) * time.Millisecond)
		var err error
		switch id := fmt.Sprint("e", s.rng.IntN(40)); s.rng.IntN(6) {
		case 0:
			err = entity.Delete(t.Context(), s.entities, workspace, id, nil)
		case 1, 2:
			occurred := record.TimeOf(s.now.Add(-time.Duration(s.rng.IntN(1000)) * time.Hour))
			d := event.Draft{ID: fmt.Sprint("v", s.rng.IntN(1_000_000)), Name: "n", EntityID: id, OccurredAt: &occurred}
			_, _, err = event.Create(t.Context(), s.events, workspace, d)
		default:
			d := entity.Draft{ID: id, Attributes: record.Attributes(fmt.Sprintf(`{"deleted":true,"n":%d}`, s.rng.Int()))}
			err = entity.Upsert(t.Context(), s.entities, workspace, id, []entity.Draft{d}, nil).Errs[0]
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// erase erases the entity but leaves its events, which an erasure job would delete.
func (s *service) erase(t *testing.T, id string) {
	t.Helper()
	if _, _, err := s.entities.Write(t.Context(), workspace, entity.Erasure(id, record.TimeOf(s.now), s.now)); err != nil {
		t.Fatal(err)
	}
}

// copyOf returns the lines that a copy must have. If keep is not nil, it filters the events.
func (s *service) copyOf(t *testing.T, resource record.Resource, keep func(event.Event) bool) string {
	t.Helper()
	var b []byte
	add := func(r interface{ AppendJSON([]byte) ([]byte, error) }) {
		var err error
		if b, err = r.AppendJSON(b); err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
	}
	if resource == record.Entity {
		page, err := s.entities.List(t.Context(), workspace, entity.Query{Limit: 10_000})
		if err != nil || page.Next != "" {
			t.Fatal(err, page.Next)
		}
		for _, e := range page.Records {
			add(e)
		}
		return string(b)
	}
	page, err := s.events.List(t.Context(), workspace, event.Query{Limit: 10_000})
	if err != nil || page.Next != "" {
		t.Fatal(err, page.Next)
	}
	lines := make(map[string]event.Event)
	for _, e := range page.Records {
		lines[e.ID] = e
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		if keep == nil || keep(lines[id]) {
			add(lines[id])
		}
	}
	return string(b)
}

// open returns a run with small pages and batches, and the run's stderr.
func (s *service) open(t *testing.T, resource record.Resource, path string, change ...func(*Options)) (*syncer, *strings.Builder) {
	t.Helper()
	c, err := client.New(s.url, client.Config{MaxTries: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Resource: resource, Path: path, PageSize: 7, Now: func() time.Time { return s.now }, Waiting: func() string { return "" }}
	s.source = "service/default"
	for _, f := range change {
		f(&o)
	}
	var stderr strings.Builder
	run, err := open(t.Context(), o, c, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	run.batchBytes = 1500
	return run, &stderr
}

// sync updates the copy at path, as Run does but with small pages and batches.
func (s *service) sync(t *testing.T, resource record.Resource, path string, change ...func(*Options)) (r Result, stderr string, err error) {
	t.Helper()
	run, out := s.open(t, resource, path, change...)
	r, err = run.run(t.Context())
	if closeErr := run.walk.Close(); closeErr != nil {
		t.Error(closeErr)
	}
	return r, out.String(), err
}
