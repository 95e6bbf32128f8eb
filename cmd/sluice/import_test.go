package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/importer"
	"sluice/internal/test/secrettest"
)

// unlimited sets the limits to the highest values that a server accepts.
var unlimited = []string{"LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900"}

// sluiceCommand returns a command that uses the server at url and runs in a new directory.
func sluiceCommand(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE_API_KEY=")
	cmd.Dir = t.TempDir()
	return cmd
}

// inEnv is like sluiceCommand, for commands that need no service. It adds env to the environment.
func inEnv(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := sluiceCommand(t, nowhere, args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	secrettest.Check(t, "sluice", errOut.String())
	if !strings.Contains(strings.Join(cmd.Args, " "), "keys create") { // only "keys create" prints a secret
		secrettest.Check(t, "sluice", out.String())
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// wantRun checks that cmd exits with code, that its output begins with prefix, and that its
// diagnostics contain message. Unless code is 0 or exitRejected, there must be no output.
func wantRun(t *testing.T, cmd *exec.Cmd, code int, prefix, message string) (out, diagnostics string) {
	t.Helper()
	out, diagnostics, got := run(t, cmd)
	failed := code != 0 && code != exitRejected
	if got != code || !strings.HasPrefix(out, prefix) || failed && out != "" || !strings.Contains(diagnostics, message) {
		t.Errorf("%q: exit code %d, %.500s%s; want %d, %s%s", cmd.Args[1:], got, out, diagnostics, code, prefix, message)
	}
	return out, diagnostics
}

// write creates a file in a new temporary directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventLines returns n events as NDJSON. Every third event has an id.
func eventLines(n int) string {
	var b strings.Builder
	for i := range n {
		if i%3 == 0 {
			fmt.Fprintf(&b, `{"id":"given-%d","name":"n","occurred_at":"2026-01-02T15:04:05Z","attributes":{"i":%d}}`+"\n", i, i)
		} else {
			fmt.Fprintf(&b, `{"name":"n","occurred_at":"2026-01-02T15:04:05Z","attributes":{"i":%d}}`+"\n", i)
		}
	}
	return b.String()
}

// entityLines returns n entities as NDJSON. Every third entity has an id.
func entityLines(n int) string {
	return strings.NewReplacer(`"name":`, `"type":`, `"occurred_at":"2026-01-02T15:04:05Z",`, "").Replace(eventLines(n))
}

// wantEachOnce checks that the list at path has each record of eventLines(n) or entityLines(n)
// exactly once, and no other record.
func wantEachOnce(t *testing.T, c *caller, path string, n int) {
	t.Helper()
	times := make(map[int]int)
	for _, r := range walk(t, c, path+"?limit=200") {
		times[r.Attributes.I]++
	}
	if len(times) != n {
		t.Errorf("%d different records, want %d", len(times), n)
	}
	for i := range n {
		if times[i] != 1 {
			t.Errorf("record %d is stored %d times", i, times[i])
		}
	}
}

// gate is a proxy whose target server can be replaced. It can also call functions after a
// number of successful requests; see runAfter.
type gate struct {
	url    string
	target atomic.Pointer[url.URL]

	mu    sync.Mutex
	count int
	at    map[int]func()
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	g := &gate{at: make(map[int]func())}
	g.to(t, target)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(g.target.Load()) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode < 300 && !asksForSource(r.Request) {
				g.passed()
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func (g *gate) to(t *testing.T, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	g.target.Store(u)
}

func (g *gate) passed() {
	g.mu.Lock()
	g.count++
	then := g.at[g.count]
	delete(g.at, g.count)
	g.mu.Unlock()
	if then != nil {
		then()
	}
}

// runAfter calls f after n more successful requests. The response to the last of them reaches
// the client only after f has returned.
func (g *gate) runAfter(n int, f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[g.count+n] = f
}

// Both the import and the server are killed several times. Only some of the records have ids.
func TestAKilledImportEndsWithEveryRecordOnce(t *testing.T) {
	t.Parallel()
	const kills, serverKills = 5, 2
	for name, tt := range map[string]struct {
		args    []string
		lines   func(n int) string
		list    string
		records int
		perCall int
	}{
		"events one by one":   {[]string{"events", "--one-by-one"}, eventLines, "/event", 600, 1},
		"events in batches":   {[]string{"events"}, eventLines, "/event", 6000, 100},
		"entities in batches": {[]string{"entities", "--workers", "1"}, entityLines, "/entity", 6000, 100},
		"entities one by one": {[]string{"entities", "--create-only"}, entityLines, "/entity", 600, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seed = 8
			random := rand.New(rand.NewPCG(seed, uint64(tt.records)))
			dir := t.TempDir()
			env := append([]string{"DATA_DIR=" + dir}, unlimited...)
			s := startIn(t, env)
			g := newGate(t, s.url)
			file := write(t, "records.ndjson", tt.lines(tt.records))
			calls := tt.records / tt.perCall
			args := append([]string{"import"}, append(tt.args, file)...)
			for attempt := 0; ; attempt++ {
				cmd := sluiceCommand(t, g.url, args...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				// Kill every run but the last. During the last run, kill and restart the server.
				if attempt < kills {
					g.runAfter(1+random.IntN(calls/(kills+2)), func() { cmd.Process.Kill() }) //nolint:errcheck // the import may have ended
				} else {
					for i := range serverKills {
						restarted := make(chan struct{})
						g.runAfter(1+random.IntN(calls/(kills+2)/serverKills), func() { close(restarted) })
						select {
						case <-restarted:
						case err := <-ended:
							t.Fatalf("the import ended before kill %d of the server: %v, %s", i+1, err, out.String())
						}
						s.Kill()
						s = startIn(t, env)
						g.to(t, s.url)
						t.Logf("kill %d of the server", i+1)
					}
				}
				err := <-ended
				if attempt < kills {
					if err == nil {
						t.Fatalf("the import ended before it could be killed: %s", out.String())
					}
					continue
				}
				if err != nil {
					t.Fatalf("%v: %s", err, out.String())
				}
				t.Logf("%s", out.String())
				break
			}
			wantEachOnce(t, s.client(t), tt.list, tt.records)

			g.mu.Lock()
			before := g.count
			g.mu.Unlock()
			out, _, code := run(t, sluiceCommand(t, g.url, args...))
			g.mu.Lock()
			defer g.mu.Unlock()
			if code != 0 || !strings.HasPrefix(out, fmt.Sprint(tt.records, " ", tt.args[0])) || g.count != before {
				t.Errorf("run once more: exit code %d, %d calls, %s", code, g.count-before, out)
			}
		})
	}
}

// At the default limits, the service refuses at most 5 of an import's calls. Entities are sent
// 100 at a time. With --rate, an import makes no more calls a second.
func TestAnImportKeepsToTheLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args    []string
		lines   string
		records int64
		calls   int64
		least   time.Duration
	}{
		"events one by one": {[]string{"events", "--one-by-one"}, eventLines(1000), 1000, 1000, 0},
		"entities":          {[]string{"entities"}, entityLines(10_000), 10_000, 100, 0},
		"at a rate":         {[]string{"events", "--one-by-one", "--workers", "1", "--rate", "50"}, eventLines(101), 101, 101, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"import", "--json", tt.args[0], write(t, "records.ndjson", tt.lines)}, tt.args[1:]...)
			s := start(t, t.TempDir())
			began := time.Now()
			out, _ := wantRun(t, sluiceCommand(t, s.url, args...), 0, "{", "")
			if took := time.Since(began); took < tt.least {
				t.Errorf("it took %s, want at least %s", took, tt.least)
			}
			var r importer.Result
			if err := json.Unmarshal([]byte(out), &r); err != nil || r.Created != tt.records || r.Calls-r.CallsRefused != tt.calls || r.CallsRefused > 5 {
				t.Errorf("%s, %v; want %d created by %d calls", out, err, tt.records, tt.calls)
			}
		})
	}
}

func TestImportSaysWhatItRejects(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	c := s.client(t)
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"taken","name":"n"}`)
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	large := `{"a":"` + strings.Repeat("x", 300_000) + `"}`
	lines := []string{`{"id":"a","name":"n"}`, `{"id":"taken","name":"other"}`, `{"name":""}`, `{`, `{"id":"taken","name":"n"}`, `{"name":"deep","attributes":` + deep + `}`, `{"id":"b","name":"n"}`, `{"name":"large","attributes":` + large + `}`}
	for _, args := range [][]string{nil, {"--one-by-one"}} {
		file := write(t, "events.ndjson", strings.Join(lines, "\n"))
		out, _ := wantRun(t, sluiceCommand(t, s.url, append([]string{"import", "events", file, "--json", "--time", "now"}, args...)...), exitRejected, "", "5 records were rejected; "+file+".rejects.ndjson says why")
		var result importer.Result
		if err := json.Unmarshal([]byte(out), &result); err != nil || result.Rejected != 5 || result.Created+result.Existing != 3 || result.RejectsFile != file+".rejects.ndjson" {
			t.Errorf("%v: %s: %v", args, out, err)
		}
		var got []string
		for line := range strings.Lines(read(t, file+".rejects.ndjson")) {
			var r struct {
				Line, Status  int
				Reason, Input string
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Input != lines[r.Line-1] || r.Reason == "" {
				t.Errorf("%s", line)
			}
			got = append(got, fmt.Sprint(r.Line, " ", r.Status))
		}
		if want := "[2 409 3 0 4 0 6 0 8 413]"; fmt.Sprint(got) != want {
			t.Errorf("%v: rejected %v, want %s", args, got, want)
		}
		if again, _, code := run(t, sluiceCommand(t, s.url, "import", "events", file, "--time", "now")); code != exitRejected || !strings.Contains(again, "0 calls") {
			t.Errorf("%v: run once more: exit code %d, %s", args, code, again)
		}
	}
}

func TestImportOfEntities(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	c := s.client(t)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"a","type":"t","attributes":{"x":1,"y":2}}`)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"b","type":"other"}`)
	text := "id,type,attributes.x\na,t,5\nb,t,5\nc,t,5\n,t,5\n"

	file := write(t, "entities.csv", text)
	wantRun(t, sluiceCommand(t, s.url, "import", "entities", "--create-only", file), exitRejected, "4 entities: 2 new, 0 there already, 0 updated, 2 rejected. 4 calls", "")
	c.want(t, http.StatusOK, "POST", "/create_entity", `{"id":"a","type":"t","attributes":{"x":1,"y":2}}`) // the entity "a" is unchanged
	if rejected := read(t, file+".rejects.ndjson"); !strings.Contains(rejected, `{"line":3,"reason":"another entity already has the id \"b\"`) {
		t.Errorf("rejected %s", rejected)
	}

	for i, args := range [][]string{nil, {"--update"}} {
		file = write(t, "entities.csv.gz", packed(t, text+fmt.Sprintf("d-%d,t,null\na b,t,5\n", i)))
		wantRun(t, sluiceCommand(t, s.url, append([]string{"import", "entities", file}, args...)...), exitRejected, "6 entities: 2 new, 0 there already, 3 updated, 1 rejected. 1 call ", "")
		c.want(t, http.StatusOK, "POST", "/create_entity", `{"id":"a","type":"t","attributes":{"x":5,"y":2}}`)
		c.want(t, http.StatusOK, "POST", "/create_entity", `{"id":"b","type":"t","attributes":{"x":5}}`)
		c.want(t, http.StatusOK, "POST", "/create_entity", fmt.Sprintf(`{"id":"d-%d","type":"t"}`, i))
		if rejected := read(t, file+".rejects.ndjson"); !strings.HasPrefix(rejected, `{"line":7,"reason":"id \"a b\" has the character`) {
			t.Errorf("rejected %s", rejected)
		}
	}

	// An existing entity keeps its type if its line in the file has none.
	file = write(t, "entities.ndjson", `{"id":"a","attributes":{"y":3}}`+"\n"+`{"id":"e"}`)
	wantRun(t, sluiceCommand(t, s.url, "import", "entities", file), 0, "2 entities: 1 new, 0 there already, 1 updated", "")
	c.want(t, http.StatusOK, "POST", "/create_entity", `{"id":"a","type":"t","attributes":{"x":5,"y":3}}`)
	c.want(t, http.StatusOK, "POST", "/create_entity", `{"id":"e","type":"entity"}`)
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestImportFromStandardInput(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	for _, want := range []string{"250 events: 250 new", "250 events: 0 new, 250 there already"} {
		cmd := sluiceCommand(t, s.url, "import", "events", "-")
		cmd.Stdin = strings.NewReader(eventLines(250))
		wantRun(t, cmd, 0, want, "")
		wantFiles(t, cmd.Dir)
	}
	wantEachOnce(t, s.client(t), "/event", 250)
}

func TestAnInterruptedImportPrintsItsResult(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	g := newGate(t, s.url)
	file := write(t, "events.ndjson", eventLines(3000))
	args := []string{"import", "events", "--json", "--one-by-one", file}
	cmd := sluiceCommand(t, g.url, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.runAfter(200, func() { cmd.Process.Signal(os.Interrupt) }) //nolint:errcheck // if the command has already ended, the test fails below
	cmd.Wait()                                                   //nolint:errcheck // the test also fails below if the exit code is wrong
	var r importer.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || cmd.ProcessState.ExitCode() != exitInterrupted || r.Complete || r.Created == 0 || r.Created == 3000 ||
		!strings.Contains(stderr.String(), "The same command continues after line") {
		t.Fatalf("%s%s, %v, %v", out.String(), stderr.String(), cmd.ProcessState, err)
	}
	printed, _ := wantRun(t, sluiceCommand(t, g.url, args...), 0, "{", "")
	if err := json.Unmarshal([]byte(printed), &r); err != nil || !r.Complete || r.Created != 3000 {
		t.Errorf("%s, %v", printed, err)
	}
}

// It also checks that output to a pipe contains no control characters.
func TestTheKeyIsNeverShown(t *testing.T) {
	t.Parallel()
	file := write(t, "events.ndjson", eventLines(3))
	s := start(t, t.TempDir())
	for _, args := range [][]string{
		{"--help"}, {"import", "--help"}, {"import", "events", file, "--url", "x"}, {"import", "events", file, "--url", "http://127.0.0.1\x7f"}, {"import", "events", file},
		{"export", "event", "-o", "-"}, {"usage", "--once"}, {"limits", "list"}, {"completion", "bash"},
	} {
		cmd := sluiceCommand(t, s.url, args...)
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY=slc_0123_hidden")
		out, stderr, _ := run(t, cmd)
		if all := out + stderr; strings.Contains(all, "hidden") || strings.ContainsAny(all, "\r\x1b") || all == "" {
			t.Errorf("%v printed %q", args, all)
		}
	}
}
