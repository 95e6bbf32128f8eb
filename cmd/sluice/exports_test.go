package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/internal/localserver"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// exported waits for an export job and returns the job and the text of its file.
func exported(t *testing.T, c *client.Client, id string) (exportjob.Job, string) {
	t.Helper()
	j, err := c.AwaitExportJob(t.Context(), id, nil)
	var file strings.Builder
	if err == nil {
		_, err = c.DownloadExport(t.Context(), id, 0, &file)
	}
	if err != nil || int64(file.Len()) != *j.SizeBytes {
		t.Fatalf("%d bytes of %+v: %v", file.Len(), j, err)
	}
	return j, gunzip(t, file.String())
}

func TestExportJobsOfEitherKindOfStore(t *testing.T) {
	t.Parallel()
	onEachBackend(t, []string{"EVENT_SHARDS=4"}, func(t *testing.T, s *server) {
		c, service := s.client(t), newClient(t, s.url)
		var lines []string
		for i, attributes := range []string{`{}`, `{"n":1.50,"é\"":"<&>","deep":{"a":[1,null]}}`, `{"n":-2,"f":"=1+1","none":null,"lines":"a\nb,\"c\""}`} {
			r := c.want(t, http.StatusCreated, "POST", "/create_event", fmt.Sprintf(`{"id":"e%d","name":"n","entity_id":"ada","occurred_at":"2026-01-0%dT00:00:00Z","attributes":%s}`, i, i+1, attributes))
			lines = append(lines, r.body)
		}
		entity := c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person"}`)
		c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"hal","type":"robot"}`)
		for _, tt := range []struct{ id, order, want string }{
			{"all", `"resource":"event","format":"ndjson"`, strings.Join(lines, "")},
			{"some", `"resource":"event","format":"ndjson","filters":{"entity_id":"ada","from":"2026-01-02T00:00:00Z","to":"2026-01-03T00:00:00Z"}`, lines[1]},
			{"type", `"resource":"entity","format":"ndjson","filters":{"type":"person"}`, entity.body},
			{"none", `"resource":"entity","format":"ndjson","filters":{"type":"ghost"}`, ""},
			{"no-csv", `"resource":"entity","format":"csv","filters":{"type":"ghost"}`, "id,type,created_at,updated_at\r\n"},
		} {
			c.want(t, http.StatusCreated, "POST", "/create_export_job", fmt.Sprintf(`{"id":"%s",%s}`, tt.id, tt.order))
			j, got := exported(t, service, tt.id)
			if got != tt.want {
				t.Errorf("%s: got\n%s\nwant\n%s", tt.id, got, tt.want)
			}
			if n := int64(strings.Count(tt.want, `"attributes"`)); j.RecordsWritten != n || j.RecordsExpected == nil || *j.RecordsExpected != n {
				t.Errorf("%s: %+v, want %d records", tt.id, j, n)
			}
		}
		c.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"csv","resource":"event","format":"csv"}`)
		_, csv := exported(t, service, "csv")
		for _, want := range []string{
			`id,name,entity_id,occurred_at,created_at,attributes.deep,attributes.f,attributes.lines,attributes.n,attributes.none,"attributes.é"""` + "\r\n",
			`,"{""a"":[1,null]}",,,1.50,,<&>` + "\r\n",
			`,,'=1+1,"a` + "\n" + `b,""c""",-2,null,` + "\r\n",
		} {
			if !strings.Contains(csv, want) {
				t.Errorf("the CSV lacks %q:\n%s", want, csv)
			}
		}
		if list := c.want(t, http.StatusOK, "GET", "/export_job", ""); strings.Count(list.body, `"succeeded"`) != 6 || !strings.HasPrefix(list.body, `{"data":[{"id":"csv"`) {
			t.Errorf("the list is %s", list.body)
		}
	})
}

// After a restart, a server has the records and export files of its data directory. It
// rejects the download links from before the restart.
func TestLinksToExportFilesAndARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.client(t)
	created := c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","attributes":{"n":1.50}}`)
	c.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"x","resource":"event","format":"ndjson"}`)
	j, _ := exported(t, newClient(t, s.url), "x")
	link := strings.TrimPrefix(*j.DownloadURL, c.url)
	name := "events-" + j.CreatedAt.Time().Format(time.DateOnly) + ".ndjson.gz"
	if whole := c.do(t, "GET", link, ""); whole.status != 200 || whole.header.Get("Content-Disposition") != "attachment; filename="+name || whole.header.Get("Content-Type") != "application/gzip" {
		t.Errorf("%d %v", whole.status, whole.header)
	} else if part := c.do(t, "GET", link, "", "Range", "bytes=2-5"); part.status != http.StatusPartialContent || part.body != whole.body[2:6] {
		t.Errorf("a range: %d %q of %q", part.status, part.body, whole.body)
	}
	for name, tt := range map[string]struct {
		method, target string
		status         int
	}{
		"another file":      {"GET", strings.Replace(link, "event-x", "event-y", 1), 403},
		"another name":      {"GET", strings.Replace(link, "name=events", "name=other", 1), 403},
		"another workspace": {"GET", strings.Replace(link, "default", "other", 1), 403},
		"a later expiry":    {"GET", strings.Replace(link, "expires=", "expires=9", 1), 403},
		"no signature":      {"GET", strings.Split(link, "?")[0], 403},
		"a path above":      {"GET", "/export_file/../sluice.db?" + strings.Split(link, "?")[1], 403},
		"another method":    {"POST", link, 405},
	} {
		if r := c.do(t, tt.method, tt.target, ""); r.status != tt.status {
			t.Errorf("%s: %d %.100q", name, r.status, r.body)
		}
	}
	if printed := s.stop(t); !strings.Contains(printed, "Stopped.") {
		t.Errorf("the server printed %q", printed)
	}
	s = start(t, dir)
	c = s.client(t)
	if got := c.want(t, http.StatusOK, "GET", "/entity/ada", ""); got.body != created.body {
		t.Errorf("read back %s, created %s", got.body, created.body)
	}
	if r := c.do(t, "GET", link, ""); r.status != 403 {
		t.Errorf("a link from before the restart: status %d", r.status)
	}
	if _, text := exported(t, newClient(t, s.url), "x"); text != "" {
		t.Errorf("the file has %s", text)
	}
}

// filledEvent returns the event that fillEvents stores as number i, with the given number of
// attributes.
func filledEvent(i, attributes int) event.Event {
	var others strings.Builder
	for j := range attributes - 1 {
		fmt.Fprintf(&others, `,"a%d":%d`, j, j)
	}
	return event.Event{
		ID: fmt.Sprintf("e%06d", i), Name: "n", Attributes: record.Attributes(fmt.Sprintf(`{"n":%d%s}`, i, &others)),
		OccurredAt: record.TimeOf(time.UnixMilli(int64(i))), CreatedAt: record.TimeOf(time.UnixMilli(0)),
	}
}

// fillEvents stores n events in the data file of a server that is not running. Each event has
// the given number of attributes.
func fillEvents(t *testing.T, dir string, n, attributes int) {
	t.Helper()
	fill(t, dir, n, bolt.NewEvents, func(store *bolt.Events, i int) error {
		_, _, err := store.Create(t.Context(), "default", filledEvent(i, attributes))
		return err
	})
}

// fill opens a store in the data file of a server that is not running. It calls the function
// create once with each number from 0 to n-1.
func fill[S any](t *testing.T, dir string, n int, open func(*bbolt.DB) (S, error), create func(store S, i int) error) {
	t.Helper()
	if err := localserver.CreateDir(dir); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(dir, "sluice.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := open(db)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const together = 500 // records per transaction
	for w := range together {
		writers.Go(func() {
			for i := w; i < n; i += together {
				if err := create(store, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if err := db.Close(); err != nil || t.Failed() {
		t.Fatal("fill: ", err)
	}
}

// One workspace has as many large export jobs as its quota allows, and the first of them has
// already moved to the slow lane. A small export job of another workspace still starts and
// ends.
func TestASmallExportStartsWhileAnotherWorkspaceHasItsQuota(t *testing.T) {
	t.Parallel()
	const quota = 12 // higher than the default
	dir := t.TempDir()
	events := 100_000 // their export takes several times as long as a run in the fast lane
	if raceDetector() {
		events = 20_000
	}
	fillEvents(t, dir, events, 50)
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + dir, "EXPORT_JOBS_PER_WORKSPACE=" + fmt.Sprint(quota)}
	s := startIn(t, env)
	in := func(workspace string) *client.Client {
		c, err := client.New(s.url, client.Config{Key: createKey(t, env, "--scope", "dashboard", "--workspace", workspace)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	large, small := in("default"), in("other")
	order := client.NewExportJob{Resource: record.Event, Format: exportjob.CSV}
	for range quota {
		if _, _, err := large.CreateExportJob(t.Context(), order); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := large.CreateExportJob(t.Context(), order)
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "too_many_export_jobs" {
		t.Error(err)
	}
	count := func(status exportjob.Status) (n int) {
		page, err := large.ListExportJobs(t.Context(), client.ExportJobQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Data {
			if j.Status == status {
				n++
			}
		}
		return n
	}
	for look := time.NewTicker(100 * time.Millisecond); count(exportjob.Running) < 2; {
		<-look.C
	}
	began := time.Now()
	j, _, err := small.CreateExportJob(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	exported(t, small, j.ID)
	took := time.Since(began)
	t.Logf("the small export took %v", took)
	if took > time.Minute {
		t.Error("the small export took more than a minute")
	}
	if ended := count(exportjob.Succeeded); ended > 1 {
		t.Errorf("%d of the large exports had ended by then, so this proves nothing", ended)
	}
}

// While an export job runs, another client can still read exactly 200 records per window. The
// test tries again until all requests are in one window and the job still runs after the last
// request.
func TestALargeExportLeavesTheLimitsOfOthersAlone(t *testing.T) {
	t.Parallel()
	const records = 50_000
	dir := t.TempDir()
	fillEvents(t, dir, records, 1)
	s := start(t, dir)
	owner := newClient(t, s.url)
	var id string
	during := false
	for n := 0; n < 10 && !during; n++ {
		oneWindow(t, s, func(c *caller) (responses []response) {
			j, _, err := owner.CreateExportJob(t.Context(), client.NewExportJob{Resource: record.Event, Format: exportjob.NDJSON})
			if err != nil {
				t.Fatal(err)
			}
			id = j.ID
			for range 4 {
				responses = append(responses, c.do(t, "GET", "/event?limit=50", ""))
			}
			responses = append(responses, c.do(t, "GET", "/event?limit=1", ""))
			if j, err = owner.GetExportJob(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			during = j.Status == exportjob.Running
			if responses[0].reset(t) == responses[4].reset(t) {
				for i, r := range responses {
					if want := []int{200, 200, 200, 200, 429}[i]; r.status != want {
						t.Errorf("request %d: status %d, want %d: %.200s", i, r.status, want, r.body)
					}
				}
			}
			if _, err := owner.AwaitExportJob(t.Context(), id, nil); err != nil {
				t.Fatal(err)
			}
			return responses
		})
	}
	if !during {
		t.Fatal("in no try was the job still running after the requests; it is too small for this test")
	}
	j, text := exported(t, owner, id)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != records || j.RecordsWritten != records {
		t.Fatalf("%d lines; the job is %+v", len(lines), j)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"id":"e%06d",`, i)) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
}
