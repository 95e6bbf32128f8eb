package clients

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/localserver"
	"sluice/internal/test/servertest"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
)

// startService starts the server that `sluice serve` runs. It has an index on the attribute email,
// and an entity and an event that are an hour old, so that walks return them.
func startService(t *testing.T) (url, key string) {
	t.Helper()
	return startServiceFor(t, "")
}

// startServiceFor is like startService, and lets pages of an origin use the service.
func startServiceFor(t *testing.T, origin string) (url, key string) {
	t.Helper()
	dir := t.TempDir()
	key = servertest.CreateKey(t, dir, access.DefaultWorkspace)
	indexes, err := bolt.OpenIndexes(dir)
	if err != nil {
		t.Fatal(err)
	}
	email := index.Declaration{Workspace: access.DefaultWorkspace, Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, Place: 1, State: index.Ready}
	if _, err := indexes.Put(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	createOldRecords(t, dir)
	env := map[string]string{"AUTH_MODE": "api-key", "CORS_ORIGINS": origin}
	return servertest.StartWith(t, env, localserver.Options{DataDir: dir}), key
}

func createOldRecords(t *testing.T, dir string) {
	t.Helper()
	stores, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: func() time.Time { return time.Now().Add(-time.Hour) }}, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close() //nolint:errcheck // if closing fails, the server fails too
	if _, _, err := entity.Create(t.Context(), stores.Entities, access.DefaultWorkspace, entity.Draft{ID: "old", Type: "person", Attributes: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := event.Create(t.Context(), stores.Events, access.DefaultWorkspace, event.Draft{ID: "old", Name: "n", EntityID: "old"}); err != nil {
		t.Fatal(err)
	}
}

// examplesOfTheDocs returns the examples in docs/clients.md in a language.
func examplesOfTheDocs(t *testing.T, language string, known int) (examples []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		examples = append(examples, example[1])
	}
	if len(examples) != known {
		t.Fatalf("docs/clients.md has %d examples in %s; this test knows %d", len(examples), language, known)
	}
	return examples
}

// The Python examples in docs/clients.md run unchanged, one after another, outside the
// repository, and use the installed wheel.
func TestThePythonExamplesOfTheDocs(t *testing.T) {
	t.Parallel()
	want := []string{
		"order-2 True\n",
		`order_placed {'total': 19.5}` + "\n" + `['ada', 'old'] None` + "\nada {'email': 'ada@example.com'}\n",
		"{'visits': 1} 2\n",
		"ada is stored\nbob is deleted\n",
		"3 entities; the next walk starts at 20",
		"nobody is not there\n422 invalid_body ['name is required: 1 to 128 characters']\nchange the event\n",
		"252 events\n",
		"['ada', 'home', 'item-0', 'item-1', 'item-10',",
	}
	examples := examplesOfTheDocs(t, "python", len(want))
	url, key := startService(t)
	dir := t.TempDir()
	for i, example := range examples {
		file := filepath.Join(dir, fmt.Sprintf("example%d.py", i))
		if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := newestPython().command(t, file)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "SLUICE_URL="+url, "SLUICE_API_KEY="+key)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want[i]) {
			t.Errorf("%v\n%s\nprinted %s\nwant %s", err, example, out, want[i])
		}
	}
}

// faulty is a proxy that makes the first two requests of each call fail, in two of the ways listed
// in faults. It forwards such a request only if it will then lose or cut the response.
type faulty struct {
	next http.Handler

	mu    sync.Mutex
	calls map[string]int // maps the id of a call's first record to the number of the call, from 0
	tries map[string]int
}

var faults = []string{"503", "lost", "429", "cut", "429 with Retry-After", "500"}

// fault returns an element of faults for the first two requests of a call, and "" for later ones.
func (f *faulty) fault(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.calls[id]; !ok {
		f.calls[id] = len(f.calls)
	}
	if f.tries[id]++; f.tries[id] > 2 {
		return ""
	}
	return faults[(f.calls[id]+f.tries[id])%len(faults)]
}

var firstID = regexp.MustCompile(`"id":"([^"]+)"`)

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id := firstID.FindSubmatch(body)
	if err != nil || id == nil {
		http.Error(w, "the request has no id", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	fault := f.fault(string(id[1]))
	switch fault {
	case "":
		f.next.ServeHTTP(w, r)
	case "lost", "cut":
		got := httptest.NewRecorder()
		f.next.ServeHTTP(got, r)
		if fault == "cut" {
			w.Header().Set("Content-Length", fmt.Sprint(got.Body.Len()))
			w.WriteHeader(got.Code)
			w.Write(got.Body.Bytes()[:got.Body.Len()/2]) //nolint:errcheck // the client may be gone
			http.NewResponseController(w).Flush()        //nolint:errcheck // the client may be gone
		}
		panic(http.ErrAbortHandler)
	case "429 with Retry-After":
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		var status int
		fmt.Sscan(fault, &status) //nolint:errcheck // the fault is a number
		w.WriteHeader(status)
	}
}

// Whatever happens to requests and responses, each record is stored exactly once, and each call
// succeeds with its third request.
func TestRecordsAreStoredOnceInSpiteOfFaults(t *testing.T) {
	t.Parallel()
	python := func(mode string) func(t *testing.T, url string) *exec.Cmd {
		return func(t *testing.T, url string) *exec.Cmd {
			return newestPython().command(t, "python/tests/importer.py", mode, url)
		}
	}
	for name, program := range map[string]func(t *testing.T, url string) *exec.Cmd{
		"python sync": python("sync"), "python async": python("async"),
		"typescript": func(t *testing.T, url string) *exec.Cmd { return node(t, "importer.js", url) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, key := startService(t)
			target, err := url.Parse(service)
			if err != nil {
				t.Fatal(err)
			}
			next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
			server := httptest.NewServer(&faulty{next: next, calls: make(map[string]int), tries: make(map[string]int)})
			t.Cleanup(server.Close)
			cmd := program(t, server.URL)
			cmd.Stdin = strings.NewReader(key)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checkImported(t, service, key)
		})
	}
}

// checkImported checks that the service has the events that the importers create, the old event
// that startService creates, and no other events.
func checkImported(t *testing.T, service, key string) {
	t.Helper()
	c, err := client.New(service, client.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]int)
	for e, err := range c.Events(t.Context(), client.EventQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		names[e.Name]++
	}
	if got := fmt.Sprint(names); got != "map[batch:300 n:1 single:40]" {
		t.Errorf("the events are %s", got)
	}
}
