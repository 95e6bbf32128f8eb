package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const nowhere = "http://127.0.0.1:1"

// sourceOnly starts a service that reports only its source. An import needs no more than that
// if the client rejects every record.
func sourceOnly(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sluice-Source", "service/default")
		w.WriteHeader(http.StatusForbidden)
		if !asksForSource(r) {
			t.Errorf("the command requests %s", r.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// asksForSource reports whether a command sends r to learn the service's source.
func asksForSource(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/export_job"
}

// badEvent is a record that the client rejects without sending it.
const badEvent = `{"name":""}` + "\n"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func inDir(dir string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = dir
	return cmd
}

func TestTheRejectFileIsBesideTheImportedFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"x.ndjson", "./x.ndjson", "../x.ndjson", ".x.ndjson"} {
		dir := filepath.Join(t.TempDir(), "work")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		overwrite(t, filepath.Join(dir, path), badEvent)
		wantRun(t, inDir(dir, sluiceCommand(t, sourceOnly(t), "import", "events", path)), exitRejected, "", "")
		name := filepath.Base(path)
		want := []string{name, name + ".rejects.ndjson", name + ".sluice-import"}
		if path == "../x.ndjson" {
			want = append([]string{"work"}, want...)
		}
		wantFiles(t, filepath.Dir(filepath.Join(dir, path)), want...)
	}

	cmd := sluiceCommand(t, sourceOnly(t), "import", "events", "-")
	cmd.Stdin = strings.NewReader(badEvent)
	wantRun(t, cmd, exitRejected, "", "")
	wantFiles(t, cmd.Dir, "rejects.ndjson")
}

// The import does not start if --rejects names the imported file, directly or through a link.
func TestTheImportedFileIsNotUsedAsTheRejectFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "x.ndjson")
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	overwrite(t, file, badEvent)
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, rejects := range []string{"x.ndjson", "./x.ndjson", "d/../x.ndjson", file, "link", "hard"} {
		wantRun(t, inDir(dir, sluiceCommand(t, sourceOnly(t), "import", "events", "x.ndjson", "--rejects", rejects)), exitUsage, "", "")
		wantFiles(t, dir, "d", "hard", "link", "x.ndjson")
		if got := read(t, file); got != badEvent {
			t.Fatalf("--rejects %s: the imported file is now %q", rejects, got)
		}
	}
}

// A reject file is piped into the next import, whose own reject file has the same name. The
// file is not overwritten.
func TestRejectsThatAreBeingReadAreNotLost(t *testing.T) {
	t.Parallel()
	first := sluiceCommand(t, sourceOnly(t), "import", "events", "-")
	first.Stdin = strings.NewReader(badEvent)
	wantRun(t, first, exitRejected, "", "")
	file := filepath.Join(first.Dir, "rejects.ndjson")
	rejects := read(t, file)

	again := func(args string) *exec.Cmd {
		return inDir(first.Dir, exec.CommandContext(t.Context(), "sh", "-c", "cat rejects.ndjson | "+program+" import events - --url "+sourceOnly(t)+args))
	}
	if _, stderr, code := run(t, again("")); code == 0 || code == exitRejected || !strings.Contains(stderr, "rejects.ndjson") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if got := read(t, file); got != rejects {
		t.Fatalf("the file that was read is now %q, was %q", got, rejects)
	}
	wantRun(t, again(" --rejects more.ndjson"), exitRejected, "", "")
	wantFiles(t, first.Dir, "more.ndjson", "rejects.ndjson")
}

// If the reject file exists already, an import replaces it only if it is empty, or if the journal
// shows that an earlier import wrote all of it.
func TestAFileThatNoImportWroteIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, rejects, notes := filepath.Join(dir, "x.ndjson"), filepath.Join(dir, "x.ndjson.rejects.ndjson"), filepath.Join(dir, "notes")
	overwrite(t, file, badEvent)
	importAgain := func(args ...string) (stderr string, code int) {
		_, stderr, code = run(t, inDir(dir, sluiceCommand(t, sourceOnly(t), append([]string{"import", "events", "x.ndjson", "--again"}, args...)...)))
		return stderr, code
	}
	refused := func(path, text string, args ...string) {
		t.Helper()
		overwrite(t, path, text)
		if stderr, code := importAgain(args...); code == 0 || code == exitRejected || !strings.Contains(stderr, filepath.Base(path)) {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		if got := read(t, path); got != text {
			t.Fatalf("%s is now %q, was %q", path, got, text)
		}
	}
	refused(rejects, "my own file\n")
	refused(notes, "my notes", "--rejects", "notes")
	refused(notes, "my notes", "--journal", "notes")
	refused(notes, "my notes\n", "--journal", "notes")
	wantFiles(t, dir, "notes", "x.ndjson", "x.ndjson.rejects.ndjson", "x.ndjson.sluice-import")
	if err := os.Remove(notes); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(notes, 0o700); err != nil {
		t.Fatal(err)
	}
	if stderr, code := importAgain("--rejects", "notes"); code == 0 || code == exitRejected {
		t.Errorf("a directory: exit code %d, %s", code, stderr)
	}

	// An empty file, such as one from mktemp(1), can be used.
	overwrite(t, rejects, "")
	for range 2 { // in the second iteration, an import has already written the reject file
		if stderr, code := importAgain(); code != exitRejected {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	}
	own := read(t, rejects)
	if strings.Count(own, "\n") != 1 {
		t.Errorf("the reject file is %q", own)
	}
	refused(rejects, own+own)
	refused(rejects, strings.Replace(own, "line", "LINE", 1))
	overwrite(t, rejects, own)
	overwrite(t, file, "")
	if stderr, code := importAgain(); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	wantFiles(t, dir, "notes", "x.ndjson", "x.ndjson.sluice-import")
}

func TestAnImportContinuesOnlyWithItsRejectFile(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	var open atomic.Bool
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if open.Load() || asksForSource(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		// The client does not retry this status. The import stops, because the service may have
		// stored the record.
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprint(w, `{"code":"not_implemented","detail":"not now"}`)
	})
	file := write(t, "x.ndjson", badEvent+`{"name":"n"}`+"\n"+badEvent)
	rejects := file + ".rejects.ndjson"
	again := func() (stderr string, code int) {
		_, stderr, code = run(t, sluiceCommand(t, proxy, "import", "events", "--time", "now", "--one-by-one", "--workers", "1", file))
		return stderr, code
	}
	if stderr, code := again(); code != exitFailure || !strings.Contains(stderr, "The same command continues after line 1 of") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	own := read(t, rejects)
	open.Store(true)

	if err := os.Rename(rejects, rejects+".moved"); err != nil {
		t.Fatal(err)
	}
	if stderr, code := again(); code != exitFailure || !strings.Contains(stderr, rejects) {
		t.Errorf("moved away: exit code %d, %s", code, stderr)
	}
	wantFiles(t, filepath.Dir(file), "x.ndjson", "x.ndjson.rejects.ndjson.moved", "x.ndjson.sluice-import")
	for _, text := range []string{"", own[:len(own)-1], strings.Replace(own, "line", "LINE", 1), own + "my notes\n", own + "my notes"} {
		overwrite(t, rejects, text)
		if stderr, code := again(); code != exitFailure || !strings.Contains(stderr, rejects) {
			t.Errorf("%q: exit code %d, %s", text, code, stderr)
		}
		if got := read(t, rejects); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	}

	// A killed import may have written rejects after it last saved its position, and the last
	// line may be incomplete. The next run replaces these rejects.
	overwrite(t, rejects, own+strings.Replace(own, `"line":1`, `"line":3`, 1)+own[:20])
	if stderr, code := again(); code != exitRejected {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if got, want := read(t, rejects), own+strings.Replace(own, `"line":1`, `"line":3`, 1); got != want {
		t.Errorf("the reject file is %q, want %q", got, want)
	}
}

func TestALinkToAnImportedFileIsTheSameFile(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	file := write(t, "events.ndjson", eventLines(10)+badEvent)
	dir := t.TempDir()
	link := filepath.Join(dir, "link.ndjson")
	for target, name := range map[string]string{file: "one", filepath.Join(dir, "one"): "link.ndjson"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i, path := range []string{link, file, link} {
		out, stderr, code := run(t, sluiceCommand(t, s.url, "import", "events", path))
		if code != exitRejected || !strings.HasPrefix(out, "11 events: 10 new, 0 there already, 1 rejected. ") || !strings.HasSuffix(stderr, "sluice: 1 record was rejected; "+file+".rejects.ndjson says why\n") || strings.Contains(stderr, "Already imported") != (i > 0) {
			t.Errorf("import %d: exit code %d, %s%s", i, code, out, stderr)
		}
	}
	wantEachOnce(t, s.client(t), "/event", 10)
	wantFiles(t, dir, "link.ndjson", "one")
	wantFiles(t, filepath.Dir(file), "events.ndjson", "events.ndjson.rejects.ndjson", "events.ndjson.sluice-import")
}
