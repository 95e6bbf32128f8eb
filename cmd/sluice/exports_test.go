package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	eventbolt "sluice/pkg/event/boltstore"
	"sluice/pkg/record"
)

// job has the fields of an export job that these tests use.
type job struct {
	ID              string    `json:"id"`
	Status          string    `json:"status"`
	CreatedAt       time.Time `json:"created_at"`
	RecordsWritten  int       `json:"records_written"`
	RecordsExpected *int      `json:"records_expected"`
	SizeBytes       *int64    `json:"size_bytes"`
	DownloadURL     *string   `json:"download_url"`
	Error           *string   `json:"error"`
}

func readJob(t *testing.T, r response) (j job) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &j); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return j
}

// awaitJob polls a job, as the page does, until it has ended.
func (c *client) awaitJob(t *testing.T, id string, seen func(job)) job {
	t.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-ask.C {
		r := c.check(t, "GET", "/export_job/"+id, "")
		if r.status == http.StatusTooManyRequests {
			continue
		}
		j := readJob(t, r)
		if seen != nil {
			seen(j)
		}
		if j.Status != "queued" && j.Status != "running" {
			return j
		}
	}
	t.Fatalf("job %s has not ended in two minutes", id)
	return job{}
}

// download follows a job's link and returns the content of the file.
func (c *client) download(t *testing.T, j job) string {
	t.Helper()
	if j.Status != "succeeded" || j.DownloadURL == nil {
		t.Fatalf("the job has no file: %+v", j)
	}
	resp, err := c.Get(*j.DownloadURL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body is only read
	if resp.StatusCode != http.StatusOK || resp.ContentLength != *j.SizeBytes {
		t.Fatalf("status %d, %d bytes; the job says %d", resp.StatusCode, resp.ContentLength, *j.SizeBytes)
	}
	unzip, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExportJobsOfEitherKindOfStore(t *testing.T) {
	t.Parallel()
	onEachBackend(t, []string{"EVENT_SHARDS=4"}, func(t *testing.T, s *server) {
		c := s.client(t)
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
			j := c.awaitJob(t, tt.id, nil)
			if got := c.download(t, j); got != tt.want {
				t.Errorf("%s: got\n%s\nwant\n%s", tt.id, got, tt.want)
			}
			if n := strings.Count(tt.want, `"attributes"`); j.RecordsWritten != n || j.RecordsExpected == nil || *j.RecordsExpected != n {
				t.Errorf("%s: %+v, want %d records", tt.id, j, n)
			}
		}
		c.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"csv","resource":"event","format":"csv"}`)
		csv := c.download(t, c.awaitJob(t, "csv", nil))
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

func TestLinksToExportFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.client(t)
	c.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"x","resource":"event","format":"ndjson"}`)
	j := c.awaitJob(t, "x", nil)
	link := strings.TrimPrefix(*j.DownloadURL, c.url)
	name := "events-" + j.CreatedAt.Format(time.DateOnly) + ".ndjson.gz"
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
	s.stop(t)
	c = start(t, dir).client(t)
	if r := c.do(t, "GET", link, ""); r.status != 403 {
		t.Errorf("a link from before the restart: status %d", r.status)
	}
	if j := readJob(t, c.check(t, "GET", "/export_job/x", "")); c.download(t, j) != "" {
		t.Error("the file is not empty")
	}
}

// fillEvents stores n events, each with the given number of attributes, in the data file of
// a server that is not running.
func fillEvents(t *testing.T, dir string, n, attributes int) {
	t.Helper()
	var others strings.Builder
	for i := range attributes - 1 {
		fmt.Fprintf(&others, `,"a%d":%d`, i, i)
	}
	db, err := bbolt.Open(filepath.Join(dir, "sluice.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := eventbolt.New(db)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const together = 500 // events per transaction
	for w := range together {
		writers.Go(func() {
			for i := w; i < n; i += together {
				e := event.Event{
					ID: fmt.Sprintf("e%06d", i), Name: "n", Attributes: record.Attributes(fmt.Sprintf(`{"n":%d%s}`, i, &others)),
					OccurredAt: record.TimeOf(time.UnixMilli(int64(i))), CreatedAt: record.TimeOf(time.UnixMilli(0)),
				}
				if _, _, err := store.Create(t.Context(), "default", e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if err := db.Close(); err != nil || t.Failed() {
		t.Fatal("import: ", err)
	}
}

// bearer adds an API key to requests.
type bearer struct {
	key  string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.next.RoundTrip(r)
}

// One workspace has as many large exports as its quota allows. A small export of another
// workspace still starts, and ends within a minute.
func TestASmallExportStartsWhileAnotherWorkspaceHasItsQuota(t *testing.T) {
	t.Parallel()
	const quota = 12 // higher than the default
	dir := t.TempDir()
	fillEvents(t, dir, 200_000, 50) // too many events for the first run of a job
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + dir, "EXPORT_JOBS_PER_WORKSPACE=" + fmt.Sprint(quota)}
	s := startIn(t, env)
	in := func(workspace string) *client {
		c := s.client(t)
		c.Transport = bearer{createKey(t, env, "--scope", "dashboard", "--workspace", workspace), c.Transport}
		return c
	}
	large, small := in("default"), in("other")
	for i := range quota {
		large.want(t, http.StatusCreated, "POST", "/create_export_job", fmt.Sprintf(`{"id":"%d","resource":"event","format":"csv"}`, i))
	}
	if r := large.want(t, http.StatusConflict, "POST", "/create_export_job", `{"resource":"event","format":"csv"}`); !strings.Contains(r.body, "too_many_export_jobs") {
		t.Error(r.body)
	}
	for look := time.NewTicker(100 * time.Millisecond); strings.Count(large.want(t, http.StatusOK, "GET", "/export_job", "").body, `"running"`) < 2; {
		<-look.C
	}
	began := time.Now()
	small.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"small","resource":"event","format":"csv"}`)
	small.download(t, small.awaitJob(t, "small", nil))
	took := time.Since(began)
	t.Logf("the small export took %v", took)
	if took > time.Minute {
		t.Error("the small export took more than a minute")
	}
	list := large.want(t, http.StatusOK, "GET", "/export_job", "").body
	if ended := strings.Count(list, `"succeeded"`); ended > 1 {
		t.Errorf("%d of the large exports had ended before the small one, so this test proves nothing: %s", ended, list)
	}
}

// While a job runs, another client can read exactly 200 records per window. The test repeats
// this until all requests are in one window and the job still runs after them.
func TestALargeExportLeavesTheLimitsOfOthersAlone(t *testing.T) {
	t.Parallel()
	const records = 50_000
	dir := t.TempDir()
	fillEvents(t, dir, records, 1)
	s := start(t, dir)
	owner := s.client(t)
	var j job
	during := false
	for n := 0; n < 10 && !during; n++ {
		oneWindow(t, s, func(c *client) (responses []response) {
			j = readJob(t, owner.want(t, http.StatusCreated, "POST", "/create_export_job", `{"resource":"event","format":"ndjson"}`))
			for range 4 {
				responses = append(responses, c.do(t, "GET", "/event?limit=50", ""))
			}
			responses = append(responses, c.do(t, "GET", "/event?limit=1", ""))
			during = readJob(t, owner.check(t, "GET", "/export_job/"+j.ID, "")).Status == "running"
			if responses[0].reset(t) == responses[4].reset(t) {
				for i, r := range responses {
					if want := []int{200, 200, 200, 200, 429}[i]; r.status != want {
						t.Errorf("request %d: status %d, want %d: %.200s", i, r.status, want, r.body)
					}
				}
			}
			j = owner.awaitJob(t, j.ID, nil)
			return responses
		})
	}
	if !during {
		t.Fatal("in no try was the job still running after the requests; it is too small for this test")
	}
	lines := strings.Split(strings.TrimSuffix(owner.download(t, j), "\n"), "\n")
	if len(lines) != records || j.RecordsWritten != records {
		t.Fatalf("%d lines; the job is %+v", len(lines), j)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"id":"e%06d",`, i)) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
}
