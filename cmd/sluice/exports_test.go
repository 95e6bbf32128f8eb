package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// exported waits for a job to end. It returns the job and the decompressed content of its file.
func exported(t *testing.T, c *client.Client, id string) (api.ExportJob, string) {
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

// Packages exportjob and recordfile test the format of files.
func TestFiltersOfExportJobs(t *testing.T) {
	t.Parallel()
	onEachBackend(t, []string{"EVENT_SHARDS=4"}, func(t *testing.T, s *server) {
		c, service := s.client(t), newClient(t, s.url)
		var lines []string
		for i, name := range []string{"n", "n", "other"} {
			r := c.want(t, http.StatusCreated, "POST", "/create_event", fmt.Sprintf(`{"id":"e%d","name":%q,"entity_id":"ada","occurred_at":"2026-01-0%dT00:00:00Z","attributes":{"n":1.50}}`, i, name, i+1))
			lines = append(lines, r.body)
		}
		entity := c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person"}`)
		c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"hal","type":"robot"}`)
		orders := []struct{ id, order, want string }{
			{"all", `"resource":"event"`, strings.Join(lines, "")},
			{"some", `"resource":"event","filters":{"entity_id":"ada","from":"2026-01-02T00:00:00Z","to":"2026-01-03T00:00:00Z"}`, lines[1]},
			{"name", `"resource":"event","filters":{"name":"n"}`, lines[0] + lines[1]},
			{"type", `"resource":"entity","filters":{"type":"person"}`, entity.body},
			{"none", `"resource":"entity","filters":{"type":"ghost"}`, ""},
		}
		for _, tt := range orders { // all jobs are created first, so that their waits for the indexes overlap
			c.want(t, http.StatusCreated, "POST", "/create_export_job", fmt.Sprintf(`{"id":"%s","format":"ndjson",%s}`, tt.id, tt.order))
		}
		for _, tt := range orders {
			j, got := exported(t, service, tt.id)
			if n := int64(strings.Count(tt.want, "\n")); got != tt.want || j.RecordsWritten != n || j.RecordsExpected == nil || *j.RecordsExpected != n {
				t.Errorf("%s: %+v, got\n%s\nwant\n%s", tt.id, j, got, tt.want)
			}
		}
	})
}

// Each file contains every record created before its job, even while an import is storing more.
func TestAnExportDuringAnImportHasWhatIsOlder(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	c := newClient(t, s.url)
	stop, stored := make(chan struct{}), make([][]event.Event, 4)
	var writers sync.WaitGroup
	for i := range stored {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				results, err := c.CreateEvents(t.Context(), slices.Repeat([]event.Draft{{Name: "n"}}, 100))
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range results {
					stored[i] = append(stored[i], r.Record)
				}
			}
		})
	}
	type export struct {
		job  api.ExportJob
		file string
	}
	var exports []export
	for range 4 {
		j, _, err := c.CreateExportJob(t.Context(), api.ExportOrder{Resource: record.Event, Format: record.NDJSON})
		if err != nil {
			t.Fatal(err)
		}
		done, file := exported(t, c, j.ID)
		exports = append(exports, export{done, file})
	}
	close(stop)
	writers.Wait()
	older, missing := 0, 0
	for _, x := range exports {
		has := make(map[string]bool)
		for text := range strings.SplitSeq(x.file, `{"id":"`) {
			id, _, _ := strings.Cut(text, `"`)
			has[id] = true
		}
		for _, e := range slices.Concat(stored...) {
			if e.CreatedAt.Compare(x.job.CreatedAt) < 0 {
				older++
				if !has[e.ID] {
					missing++
				}
			}
		}
	}
	if missing > 0 || older == 0 {
		t.Errorf("the files lack %d of %d events that are older than their jobs", missing, older)
	}
}

// A restarted server still has its records and export files, but rejects links from before the
// restart.
func TestLinksToExportFilesAndARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.client(t)
	created := c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","attributes":{"n":1.50}}`)
	c.want(t, http.StatusCreated, "POST", "/create_export_job", `{"id":"x","resource":"event","format":"ndjson"}`)
	j, _ := exported(t, newClient(t, s.url), "x")
	link := strings.TrimPrefix(*j.DownloadURL, c.url)
	for name, status := range map[string]int{"e.ndjson.gz": 200, "e.ndjson": 200, "e.csv": 400, "../e.ndjson": 400, "ndjson": 400} {
		c.want(t, status, "GET", "/export_job/x?file_name="+name, "")
	}
	if r := c.do(t, "GET", link, ""); r.status != 200 || r.header.Get("Content-Type") != "application/gzip" {
		t.Errorf("%d %v", r.status, r.header)
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
	if j, err := newClient(t, s.url).GetExportJob(t.Context(), "x"); err != nil {
		t.Fatal(err)
	} else {
		link = strings.TrimPrefix(*j.DownloadURL, c.url)
	}
	c.want(t, http.StatusOK, "POST", "/delete_export_job", `{"id":"x"}`)
	if r := c.do(t, "GET", link, ""); r.status != 404 {
		t.Errorf("a link to a deleted file: status %d", r.status)
	}
}

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

// fillEvents stores n events in the data directory dir. No server may be using it.
func fillEvents(t *testing.T, dir string, n, attributes int) {
	t.Helper()
	fill(t, dir, n, func() time.Time { return time.UnixMilli(0) }, func(s *bolt.Stores, i int) error {
		e := filledEvent(i, attributes)
		_, _, err := s.Events.Create(t.Context(), "default", event.Draft{ID: e.ID, Name: e.Name, Attributes: e.Attributes, OccurredAt: &e.OccurredAt})
		return err
	})
}

// fill opens the data directory dir with a clock, and calls write concurrently for each i from 0
// to n-1. No server may be using the directory.
func fill(t *testing.T, dir string, n int, now func() time.Time, write func(s *bolt.Stores, i int) error) {
	t.Helper()
	stores, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: now}, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const together = 500 // concurrent writes, which share transactions
	for w := range together {
		writers.Go(func() {
			for i := w; i < n; i += together {
				if err := write(stores, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if err := stores.Close(); err != nil || t.Failed() {
		t.Fatal("fill: ", err)
	}
}
