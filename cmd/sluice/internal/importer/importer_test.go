package importer

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/internal/test/boltstores"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/importfile"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// service stores records. Before each response, it calls answer with the number of the
// request. A result other than 0 becomes the status of the response.
type service struct {
	url      string
	source   string // Sluice-Source header of the response to /export_job
	entities entity.Store
	events   event.Store
	behind   time.Duration // how far the stores' clock is behind real time
	calls    int
	waits    int // how often imports have waited for late requests
	answer   func(call int) (status int)
}

func (s *service) now() time.Time { return time.Now().Add(-s.behind) }

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{source: "service/default", answer: func(int) int { return 0 }}
	stores, counters := boltstores.New(t, s.now)
	s.entities, s.events = stores.Entities, stores.Events
	limiter, err := ratelimit.New(counters, ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, name := range map[string]string{"/create_events": "create-events", "/upsert_entities": "upsert-entities", "/entity": "list-entity"} {
		api, err := httpapi.NewFunction(name, limiter, stores, httpapi.Options{Config: httpapi.Config{AccessOff: true}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(path, api)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/export_job" { // sent by client.Client.Source
			w.Header().Set("Sluice-Source", s.source)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.calls++
		stored := httptest.NewRecorder()
		mux.ServeHTTP(stored, r)
		if status := s.answer(s.calls); status != 0 {
			w.WriteHeader(status)
			return
		}
		maps.Copy(w.Header(), stored.Header())
		w.WriteHeader(stored.Code)
		stored.Body.WriteTo(w) //nolint:errcheck // the client reports a missing response
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *service) importFile(ctx context.Context, resource record.Resource, path string) (r Result, stderr string, err error) {
	o := events(path, recordfile.FormatOf(path), importfile.Description{})
	if resource == record.Entity {
		o.Resource, o.Time = resource, ""
	}
	return s.importAs(ctx, o)
}

func (s *service) importAs(ctx context.Context, o Options) (r Result, stderr string, err error) {
	var out bytes.Buffer
	o.Workers, o.Journal, o.Rejects, o.Waiting = 1, o.Path+".journal", o.Path+".rejects", func() string { return "" }
	sleep := o.Sleep
	o.Sleep = func(ctx context.Context, d time.Duration) {
		if s.waits++; sleep != nil {
			sleep(ctx, d)
		}
	}
	r, err = Run(ctx, o, func(cfg client.Config) (*client.Client, error) {
		cfg.MinBackoff = time.Nanosecond
		return client.New(s.url, cfg)
	}, &out)
	return r, out.String(), err
}

// want checks that the service has exactly n events, whose "i" attributes are 0 to n-1.
func (s *service) want(t *testing.T, n int) {
	t.Helper()
	page, err := s.events.List(t.Context(), "default", event.Query{Limit: n + 100})
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[int]int)
	for _, e := range page.Records {
		var attributes struct{ I int }
		if err := json.Unmarshal(e.Attributes, &attributes); err != nil {
			t.Error(err)
		}
		times[attributes.I]++
	}
	for i := range n {
		if times[i] != 1 {
			t.Fatalf("the event %d is stored %d times, of %d events", i, times[i], len(page.Records))
		}
	}
	if len(page.Records) != n {
		t.Errorf("%d events, want %d", len(page.Records), n)
	}
}

// lines returns events without ids.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"name":"n","attributes":{"i":%d}}`+"\n", i)
	}
	return b.String()
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text)) //nolint:errcheck // a bytes.Buffer
	w.Close()             //nolint:errcheck // a bytes.Buffer
	return b.String()
}

func write(t *testing.T, path, text string, flag int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// An import reads only what is in the file when the import begins. Running the same command
// again imports what was appended. Each record is stored once, even if it has no id.
func TestAFileThatGrowsDuringItsImport(t *testing.T) {
	t.Parallel()
	few, many := lines(0, 300), lines(0, 1000)
	for name, tt := range map[string]struct {
		before, appended string
		records          int
		stops            int    // number of the call that stops the import, 0 for none; -1 to append only after the import
		says             string // expected error of the first run
	}{
		"by a line":                               {few, lines(300, 301), 301, 0, ""},
		"by a line break and a line":              {strings.TrimSuffix(few, "\n"), "\n" + lines(300, 301), 301, 0, ""},
		"by the rest of its last line":            {few[:len(few)-9], few[len(few)-9:], 300, 0, ""},
		"by the rest of a line that is read late": {many[:len(many)-9], many[len(many)-9:], 1000, 0, "its last line was incomplete"},
		"by a line, and the import stops":         {few, lines(300, 301), 301, 2, "status 501"},
		"by a member of a compressed file":        {packed(few), packed(lines(300, 301)), 301, 0, ""},
		"by a line, after the import is over":     {few, lines(300, 301), 301, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newService(t), filepath.Join(t.TempDir(), "events.ndjson")
			write(t, path, tt.before, 0)
			s.answer = func(call int) int {
				if call == 1 && tt.stops >= 0 {
					write(t, path, tt.appended, os.O_APPEND)
				}
				if call == tt.stops {
					return http.StatusNotImplemented
				}
				return 0
			}
			_, stderr, err := s.importFile(t.Context(), record.Event, path)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Fatalf("error %v, want %q", err, tt.says)
			}
			if err == nil && strings.Contains(stderr, "has grown since this import began; the same command imports the rest") == (tt.stops < 0) {
				t.Errorf("printed %s", stderr)
			}
			if tt.stops < 0 {
				write(t, path, tt.appended, os.O_APPEND)
			}
			s.answer = func(int) int { return 0 }
			if r, _, err := s.importFile(t.Context(), record.Event, path); err != nil || r.Created != int64(tt.records) || r.Total() != int64(tt.records) {
				t.Errorf("the next run: %+v, %v", r, err)
			}
			s.want(t, tt.records)
			if r, stderr, err := s.importFile(t.Context(), record.Event, path); err != nil || r.Calls != 0 || !strings.Contains(stderr, "Already imported") {
				t.Errorf("once more: %+v, %s%v", r, stderr, err)
			}
		})
	}
}

// The last line has no line break when it is imported, and text is then appended to it. The
// next import refuses to guess what was meant.
func TestALineThatChangesAfterItsImport(t *testing.T) {
	t.Parallel()
	s, path := newService(t), filepath.Join(t.TempDir(), "events.ndjson")
	write(t, path, strings.TrimSuffix(lines(0, 3), "\n"), 0)
	if _, _, err := s.importFile(t.Context(), record.Event, path); err != nil {
		t.Fatal(err)
	}
	write(t, path, " "+lines(3, 4), os.O_APPEND)
	_, _, err := s.importFile(t.Context(), record.Event, path)
	if refused := new(journal.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), "up to the middle of line 3") || !strings.Contains(err.Error(), "a second time") {
		t.Errorf("error %v", err)
	}
	s.want(t, 3)
}

// The reject file has the bytes of each rejected record, including all lines of a row that a
// stray quote made too long.
func TestTheRejectFileShowsWhatWasRejected(t *testing.T) {
	t.Parallel()
	swallowed := "\"a,n" + strings.Repeat("\nb,n", 300) + "\",n,x"
	for name, tt := range map[string]struct {
		text string
		want reject
	}{
		"text.ndjson":   {" {\"name\":true} \r\n", reject{Line: 1, Reason: "name must be", Input: ` {"name":true} `}},
		"latin1.ndjson": {"\n{\"name\":\"\xe9\"}\n", reject{Line: 2, Reason: "UTF-8", Bytes: []byte("{\"name\":\"\xe9\"}")}},
		"quote.csv": {"id,name\n" + swallowed + "\n", reject{
			Line: 2, LastLine: 302, Reason: "; the row goes from line 2 to line 302, so a quote may be missing or left open", Input: swallowed,
		}},
	} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, tt.text, 0)
		if r, _, err := newService(t).importFile(t.Context(), record.Event, path); err != nil || r.Rejected != 1 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		text, err := os.ReadFile(path + ".rejects")
		var got reject
		if err = errors.Join(err, json.Unmarshal(text, &got)); err != nil || !strings.Contains(got.Reason, tt.want.Reason) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if got.Reason = tt.want.Reason; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// Records stored by an interrupted call of the same import count as new. A record that existed
// before the import does not.
func TestRecordsOfInterruptedCallsAreNew(t *testing.T) {
	t.Parallel()
	events := `{"id":"old","name":"n","attributes":{"i":0}}` + "\n" + lines(1, 250)
	for name, status := range map[string]int{"a call is repeated": http.StatusInternalServerError, "the import is repeated": http.StatusNotImplemented} {
		for resource, want := range map[record.Resource]Counts{record.Event: {Created: 249, Existing: 1}, record.Entity: {Created: 249, Updated: 1}} {
			s, path := newService(t), filepath.Join(t.TempDir(), "records.ndjson")
			s.createOld(t)
			text := events
			if resource == record.Entity {
				text = strings.ReplaceAll(text, "name", "type")
			}
			write(t, path, text, 0)
			s.answer = func(call int) int {
				if call <= 2 {
					return status // the call fails, although its records are stored
				}
				return 0
			}
			var r Result
			err := errors.New("not begun")
			for range 3 {
				if err != nil {
					r, _, err = s.importFile(t.Context(), resource, path)
				}
			}
			if err != nil || r.Counts != want {
				t.Errorf("%s: %+v, %v; want %+v", name, r.Counts, err, want)
			}
		}
	}
}

// createOld stores an event and an entity with the id "old", both created an hour ago.
func (s *service) createOld(t *testing.T) {
	t.Helper()
	s.behind = time.Hour
	defer func() { s.behind = 0 }()
	e := event.Draft{ID: "old", Name: "n", Attributes: record.Attributes(`{"i":0}`)}
	_, _, err := event.Create(t.Context(), s.events, "default", e)
	if err == nil {
		_, _, err = entity.Create(t.Context(), s.entities, "default", entity.Draft{ID: "old", Type: "n", Attributes: record.Attributes("{}")})
	}
	if err != nil {
		t.Fatal(err)
	}
}
