package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/pkg/client"
)

// startProxy returns the URL of a proxy that calls handle for each request. To forward the
// request, handle calls next.ServeHTTP. Links in responses point to the proxy.
func startProxy(t *testing.T, target string, handle func(w http.ResponseWriter, r *http.Request, next http.Handler)) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, next) }))
	t.Cleanup(server.Close)
	return server.URL
}

// filled starts a server that has two entities and the events from eventLines(n).
func filled(t *testing.T, n int) *server {
	t.Helper()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	wantRun(t, sluiceCommand(t, s.url, "import", "events", write(t, "events.ndjson", eventLines(n))), 0, "", "")
	c := s.client(t)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"f":"=1","lines":"a\nb"}}`)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"hal","type":"robot"}`)
	return s
}

func wantFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("the files are %v, want %v", got, names)
	}
}

func gunzip(t *testing.T, packed string) string {
	t.Helper()
	unpacked, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := filled(t, 50)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	events := at("events.ndjson.gz")
	out, stderr, code := run(t, sluiceCommand(t, s.url, "export", "event", "-o", events, "--json"))
	var result exportResult
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Records != 50 || result.File != events || result.Job == "" {
		t.Fatalf("exit code %d, %s%s, %v", code, out, stderr, err)
	}
	lines := gunzip(t, read(t, events))
	if n := strings.Count(lines, "\n"); n != 50 || !strings.Contains(lines, `"attributes":{"i":49}`) {
		t.Errorf("%d lines: %.200s", n, lines)
	}
	// An export to an existing file fails without --force. With --force, it replaces the file.
	overwrite(t, events, "old")
	if out, stderr, code := run(t, sluiceCommand(t, s.url, "export", "event", "-o", events)); code != exitUsage || out != "" || stderr != "sluice: "+events+" exists; name another file, or replace it with --force\n" {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if old := read(t, events); old != "old" {
		t.Errorf("the file was replaced without --force: %.100q", old)
	}
	wantRun(t, sluiceCommand(t, s.url, "export", "events", "-o", events, "--force"), 0, "50 events in "+events+", checked: ", "")
	if again := gunzip(t, read(t, events)); again != lines {
		t.Errorf("the second export differs: %.200s", again)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"event", "-o", "-"}, lines},
		{[]string{"event", "-o", "-", "--entity-id", "nobody"}, ""},
		{[]string{"event", "-o", "-", "--to", "2020-01-01T00:00:00Z"}, ""},
		{[]string{"event", "-o", "-", "--from", "2020-01-01T00:00:00Z"}, lines},
	} {
		out, stderr, code := run(t, sluiceCommand(t, s.url, append([]string{"export"}, tt.args...)...))
		if code != 0 || out != tt.want || !strings.Contains(stderr, " events in standard output, checked") {
			t.Errorf("%v: exit code %d, %.200s%s", tt.args, code, out, stderr)
		}
	}
	people := at("people.csv")
	wantRun(t, sluiceCommand(t, s.url, "export", "entity", "--type", "person", "-o", people), 0, "1 entity in ", "")
	if text := read(t, people); !strings.HasPrefix(text, "id,type,revision,created_at,updated_at,attributes.f,attributes.lines\r\nada,person,") || !strings.Contains(text, ",'=1,") {
		t.Error(text)
	}
	for _, flags := range [][]string{{"--csv-formulas", "keep", "--format", "csv", "--unpack=false", "-o", at("kept")}, {"--unpack", "-o", at("entities.ndjson.gz")}} {
		wantRun(t, sluiceCommand(t, s.url, append([]string{"export", "entity"}, flags...)...), 0, "2 entities in ", "")
	}
	if kept := gunzip(t, read(t, at("kept"))); !strings.Contains(kept, ",=1,") {
		t.Errorf("%s", kept)
	}
	if text := read(t, at("entities.ndjson.gz")); !strings.HasPrefix(text, `{"id":"ada"`) {
		t.Errorf("%.100q", text)
	}
	wantFiles(t, dir, "entities.ndjson.gz", "events.ndjson.gz", "kept", "people.csv")

	// Another service can import the exported files.
	other := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	wantRun(t, sluiceCommand(t, other.url, "import", "events", events), 0, "50 events: 50 new", "")
	wantRun(t, sluiceCommand(t, other.url, "import", "entity", people), 0, "1 entity: 1 new", "")
	other.client(t).want(t, http.StatusOK, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"f":"=1","lines":"a\nb"}}`)
}

// The next export continues the download of the same job.
func TestAKilledExportContinues(t *testing.T) {
	t.Parallel()
	s := filled(t, 300)
	const sent = 500 // bytes that the proxy sends before the client is killed
	var downloads atomic.Int32
	ranges := make(chan string, 10)
	began := make(chan struct{})
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.URL.Path, "/export_file/") {
			next.ServeHTTP(w, r)
			return
		}
		ranges <- r.Header.Get("Range")
		if downloads.Add(1) > 1 {
			next.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		w.Header().Set("Content-Length", whole.Header().Get("Content-Length"))
		w.Write(whole.Body.Bytes()[:sent]) //nolint:errcheck // the client will be killed
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
	})
	file := filepath.Join(t.TempDir(), "events.ndjson")
	first := sluiceCommand(t, proxy, "export", "event", "-o", file)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	<-began
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-look.C {
		if info, err := os.Stat(file + ".sluice-export.part"); err == nil && info.Size() == sent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was downloaded")
		}
	}
	wantRun(t, sluiceCommand(t, proxy, "export", "event", "-o", file), exitFailure, "", "another export of this file is running")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait() //nolint:errcheck // the process was killed
	wantRun(t, sluiceCommand(t, proxy, "export", "entity", "-o", file), exitUsage, "", "not finished")
	wantRun(t, sluiceCommand(t, proxy, "export", "event", "-o", file), 0, "300 events in ", fmt.Sprintf("Continuing after byte %d of", sent))
	if got := <-ranges + "|" + <-ranges; got != fmt.Sprintf("|bytes=%d-", sent) {
		t.Errorf("the ranges were %s", got)
	}
	if n := strings.Count(read(t, file), "\n"); n != 300 {
		t.Errorf("%d lines", n)
	}
	wantFiles(t, filepath.Dir(file), "events.ndjson")
	if page, err := newClient(t, s.url).ListExportJobs(t.Context(), client.ExportJobQuery{}); err != nil || len(page.Data) != 1 {
		t.Errorf("the jobs are %+v, %v", page, err)
	}
}

// A file that differs from what the job wrote does not reach the output path. The next run
// downloads the file again.
func TestAnExportIsChecked(t *testing.T) {
	t.Parallel()
	s := filled(t, 20)
	var part atomic.Value // what the proxy corrupts: "file", "count" or "nothing"
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		body := whole.Body.Bytes()
		switch file := strings.HasPrefix(r.URL.Path, "/export_file/"); {
		case part.Load() == "file" && file:
			body[len(body)-5] ^= 1 // a byte of the gzip CRC
		case part.Load() == "count" && !file:
			body = bytes.Replace(body, []byte(`"records_written":20`), []byte(`"records_written":21`), 1)
		}
		for name := range whole.Header() {
			w.Header().Set(name, whole.Header().Get(name))
		}
		w.WriteHeader(whole.Code)
		w.Write(body) //nolint:errcheck // the client reports an incomplete body
	})
	file := filepath.Join(t.TempDir(), "events.csv")
	for spoiled, says := range map[string]string{"file": "gzip: invalid checksum", "count": "it has 20 records, the job wrote 21"} {
		part.Store(spoiled)
		wantRun(t, sluiceCommand(t, proxy, "export", "event", "-o", file), exitFailure, "", says)
		wantRun(t, sluiceCommand(t, proxy, "export", "event", "-o", "-"), exitFailure, "", "")
		wantFiles(t, filepath.Dir(file), "events.csv.sluice-export", "events.csv.sluice-export.part")
	}
	part.Store("nothing")
	wantRun(t, sluiceCommand(t, proxy, "export", "event", "-o", file), 0, "20 events", "")
	wantFiles(t, filepath.Dir(file), "events.csv")
}

// The next run continues the job, or creates a new one if the job has failed. An export to
// standard output cannot be continued, so its job is cancelled.
func TestAnInterruptedExport(t *testing.T) {
	t.Parallel()
	s := filled(t, 1)
	for output, reason := range map[string]string{
		"-": "",
		filepath.Join(t.TempDir(), "events.ndjson"): "It was too large.",
		filepath.Join(t.TempDir(), "events.ndjson"): "It was too large",
	} {
		asked, cancelled := make(chan string, 100), make(chan struct{}, 1)
		proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if id, ok := strings.CutPrefix(r.URL.Path, "/export_job/"); ok {
				fmt.Fprintf(w, `{"id":%q,"status":"running"}`, id)
				asked <- id
				return
			}
			if r.URL.Path == "/cancel_export_job" {
				cancelled <- struct{}{}
			}
			next.ServeHTTP(w, r)
		})
		cmd := sluiceCommand(t, proxy, "export", "event", "-o", output)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id := <-asked
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() //nolint:errcheck // the exit code is checked
		goesOn := strings.Contains(out.String(), "The same command continues with the export job "+id)
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || goesOn != (output != "-") || len(cancelled) > 0 != (output == "-") {
			t.Errorf("%s: exit code %d, %d cancelled, %s", output, code, len(cancelled), out.String())
		}
		if output == "-" {
			continue
		}
		// Any status is fine, because the job may already have ended.
		s.client(t).check(t, "POST", "/cancel_export_job", `{"id":"`+id+`"}`)
		over := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Path == "/export_job/"+id {
				fmt.Fprintf(w, `{"id":%q,"status":"failed","error":%q}`, id, reason)
				return
			}
			next.ServeHTTP(w, r)
		})
		// The journal contains the URL of the old proxy. Replace it with that of the new proxy.
		journal := output + ".sluice-export"
		overwrite(t, journal, strings.Replace(read(t, journal), proxy, over, 1))
		wantRun(t, sluiceCommand(t, over, "export", "event", "-o", output), 0, "1 event in", "has failed: It was too large. Beginning a new one.\n")
	}
}
