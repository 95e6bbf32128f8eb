package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/pkg/index"
)

func requireProgram(t *testing.T, program, help string) {
	t.Helper()
	_, err := exec.LookPath(program)
	child.Require(t, err, help)
}

// Each client in docs/clients.md runs unchanged outside the repository, whether API keys are on
// or off. Its first request gets a 429, so it waits for the window to end, then creates its event.
func TestTheClientsOfTheDocsWait(t *testing.T) {
	t.Parallel()
	t.Run("keys on", func(t *testing.T) {
		t.Parallel()
		env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
		s := startIn(t, env)
		runClientsOfTheDocs(t, s, createKey(t, env, "--scope", "import,export"))
	})
	t.Run("keys off", func(t *testing.T) {
		t.Parallel()
		runClientsOfTheDocs(t, start(t, t.TempDir()), "")
	})
}

// language describes how to run the docs/clients.md examples in one language.
type language struct {
	file    string
	command []string // without the file name, which the test appends
	help    string
	calls   int // how many calls the example that creates an event makes if none is refused
}

// clientsOfTheDocs returns each language's examples in docs/clients.md, in page order.
func clientsOfTheDocs(t *testing.T) (examples map[string][]string, languages map[string]language) {
	t.Helper()
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	examples = make(map[string][]string)
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		examples[block[1]] = append(examples[block[1]], block[2])
	}
	module := strings.Join(regexp.MustCompile(`(?m)^    (go mod .*)$`).FindAllString(string(page), -1), "\n")
	if !strings.Contains(module, "-replace") {
		t.Fatalf("docs/clients.md does not say how another module gets the Go client: %q", module)
	}
	return examples, map[string]language{
		"sh": {file: "example.sh", command: []string{"sh", "-eu"}, help: "install curl", calls: 1},
		"go": {file: "main.go", command: []string{"sh", "-euc", "go mod init example\n" + module + "\ngo run ."}, calls: 2},
	}
}

// cmd returns a command that runs an example in a directory of its own, against the service at url.
func (l language) cmd(t *testing.T, example, url, key string) *exec.Cmd {
	t.Helper()
	requireProgram(t, l.command[0], l.help)
	file := write(t, l.file, example)
	dir := filepath.Dir(file)
	cmd := exec.CommandContext(t.Context(), l.command[0], append(slices.Clone(l.command[1:]), file)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE="+child.ModuleRoot(t), "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
	if key != "" {
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+key)
	}
	return cmd
}

// The Go examples that list records read all pages, and print the errors that they handle.
func TestTheClientsOfTheDocsListAndFail(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	s := startIn(t, env)
	key := createKey(t, env, "--scope", "import,export")
	const events = 60 // more than one page
	list := make([]string, events)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"order_placed","entity_id":"ada","id":"%d"}`, i)
	}
	c, authorization := s.client(t), "Bearer "+key
	c.do(t, "POST", "/create_events", `{"events":[`+strings.Join(list, ",")+`]}`, "Authorization", authorization)
	c.do(t, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"email":"ada@example.com"}}`, "Authorization", authorization)
	wantRun(t, inEnv(t, env, "indexes", "add", "person", "email"), 0, "", "")
	await(t, "ready", func() bool { return s.declarations(t)[0].State == index.Ready })
	examples, languages := clientsOfTheDocs(t)
	for _, example := range examples["go"] {
		var want string
		switch {
		case createsOrder.MatchString(example):
			continue // TestTheClientsOfTheDocsWait runs this example
		case strings.Contains(example, "c.Events("):
			want = "a page of 1\nfound ada {\"email\":\"ada@example.com\"}\nnobody is not there\n422 invalid_body [{name is required"
		case strings.Contains(example, "c.EntityChanges("):
			want = "1 entities; the next walk starts at 20"
		default:
			t.Errorf("no test runs this example of docs/clients.md:\n%s", example)
			continue
		}
		out, _ := wantRun(t, languages["go"].cmd(t, example, s.url, key), 0, "", "")
		if !strings.Contains(out, want) || strings.Contains(example, "c.Events(") && strings.Count(out, " order_placed\n") != events {
			t.Errorf("%s, want %s", out, want)
		}
	}
}

// createsOrder matches the id of the event that an example creates.
var createsOrder = regexp.MustCompile(`order-\d`)

// runClientsOfTheDocs leaves SLUICE_API_KEY unset if key is empty.
func runClientsOfTheDocs(t *testing.T, s *server, key string) {
	t.Helper()
	examples, languages := clientsOfTheDocs(t)
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := slices.IndexFunc(examples[name], createsOrder.MatchString)
			if first < 0 {
				t.Fatalf("docs/clients.md has no example in %s that creates an event: %q", name, examples[name])
			}
			example := examples[name][first]
			id := createsOrder.FindString(example)
			if name == "sh" {
				requireProgram(t, "curl", l.help)
			}
			var mu sync.Mutex
			var calls []time.Time
			var reset time.Time
			proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				if calls = append(calls, now); len(calls) > 1 {
					next.ServeHTTP(w, r)
					return
				}
				reset = time.Unix(now.Unix()+2, 0)
				w.Header().Set("X-RateLimit-Limit", "200")
				w.Header().Set("X-RateLimit-Remaining", "0")
				w.Header().Set("X-RateLimit-Reset", fmt.Sprint(reset.Unix()))
				w.Header().Set("Retry-After", "2")
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, `{"status":429,"code":"rate_limit_exceeded","detail":"The limit is reached."}`)
			})
			cmd := l.cmd(t, example, proxy, key)
			out, stderr, code := run(t, cmd)
			mu.Lock()
			defer mu.Unlock()
			if code != 0 || !strings.Contains(out, id) || len(calls) != 1+l.calls {
				t.Fatalf("exit code %d after %d calls, %s%s", code, len(calls), out, stderr)
			}
			if name == "sh" && !json.Valid([]byte(out)) {
				t.Errorf("the output is not one JSON document: %s", out)
			}
			if calls[1].Before(reset) {
				t.Errorf("the client called again at %s, before the window ended at %s", calls[1], reset)
			}
			if r := s.client(t).do(t, "GET", "/event/"+id, "", "Authorization", "Bearer "+key); r.status != http.StatusOK || !strings.Contains(r.body, `"order_placed"`) {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	if len(examples) != 4 {
		t.Errorf("docs/clients.md has examples in %d languages; this test runs two, and package clients those in Python and TypeScript", len(examples))
	}
}
