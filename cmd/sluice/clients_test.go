package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/child"
)

// requireProgram skips the test if the program is not installed. If the environment
// variable CI is set, it fails the test instead.
func requireProgram(t *testing.T, program, help string) {
	t.Helper()
	_, err := exec.LookPath(program)
	child.Require(t, err, help)
}

// Each client of docs/clients.md runs unchanged and outside the repository, with API keys on
// and off. The first response to each client is a 429. The client waits until the window has
// ended and then creates its event.
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

// runClientsOfTheDocs runs the clients of docs/clients.md against s. If key is not empty, it
// sets SLUICE_API_KEY to key.
func runClientsOfTheDocs(t *testing.T, s *server, key string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := make(map[string]string)
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		examples[block[1]] = block[2]
	}
	module := strings.Join(regexp.MustCompile(`(?m)^    (go mod .*)$`).FindAllString(string(page), -1), "\n")
	if !strings.Contains(module, "-replace") {
		t.Fatalf("docs/clients.md does not say how another module gets the Go client: %q", module)
	}
	for language, tt := range map[string]struct {
		file    string
		command []string // without the file name, which the test appends
		help    string
		modules string
	}{
		"sh":     {file: "example.sh", command: []string{"sh", "-eu"}, help: "install curl"},
		"python": {file: "example.py", command: []string{child.Cached(t, "requests/bin/python")}, help: "run: make requests"},
		"js":     {file: "example.mjs", command: []string{"node"}, modules: child.Cached(t, "ky/node_modules"), help: "install Node.js and run: make ky"},
		"go":     {file: "main.go", command: []string{"sh", "-euc", "go mod init example\n" + module + "\ngo run ."}},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			source := examples[language]
			id := regexp.MustCompile(`order-\d`).FindString(source)
			if id == "" {
				t.Fatalf("docs/clients.md has no example in %s that creates an event: %q", language, source)
			}
			requireProgram(t, tt.command[0], tt.help)
			if language == "sh" {
				requireProgram(t, "curl", tt.help)
			}
			file := write(t, tt.file, source)
			if tt.modules != "" {
				_, err := os.Stat(tt.modules)
				child.Require(t, err, tt.help)
				if err := os.Symlink(tt.modules, filepath.Join(filepath.Dir(file), "node_modules")); err != nil {
					t.Fatal(err)
				}
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
			cmd := exec.CommandContext(t.Context(), tt.command[0], append(tt.command[1:], file)...)
			cmd.Dir = filepath.Dir(file)
			cmd.Env = append(os.Environ(), "SLUICE_URL="+proxy, "SLUICE="+child.ModuleRoot(t), "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
			if key != "" {
				cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+key)
			}
			out, stderr, code := run(t, cmd)
			mu.Lock()
			defer mu.Unlock()
			if code != 0 || !strings.Contains(out, id) || len(calls) != 2 {
				t.Fatalf("exit code %d after %d calls, %s%s", code, len(calls), out, stderr)
			}
			if language == "sh" && !json.Valid([]byte(out)) {
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
		t.Errorf("docs/clients.md has examples in %d languages; this test runs four", len(examples))
	}
}
