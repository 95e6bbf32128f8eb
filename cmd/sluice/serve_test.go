package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/openapitest"
	"sluice/internal/test/secrettest"
)

var (
	program string            // path of the program that the tests run, built by TestMain
	spec    *openapitest.Spec // openapi.yaml, which all responses must match
)

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	if spec, err = openapitest.Load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return secrettest.Run(m)
}

// server is a running `sluice serve`.
type server struct {
	*child.Process
	url string
}

// start runs `sluice serve` on a free port and waits until it listens.
func start(t *testing.T, dataDir string, args ...string) *server {
	t.Helper()
	return startIn(t, []string{"DATA_DIR=" + dataDir}, args...)
}

// startIn is like start, with additional environment variables ("NAME=value").
func startIn(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	return startProgram(t, program, env, args...)
}

// startProgram is like startIn, for another build of the program.
func startProgram(t *testing.T, program string, env []string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(program, append([]string{"serve"}, args...)...)
	cmd.Env = append(append(os.Environ(), "ADDR=127.0.0.1:0"), env...)
	cmd.Stdout = secrettest.Writer("sluice serve")
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	url, err := p.ReadyText(t.Context(), `Sluice listens on (\S+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	return &server{Process: p, url: url}
}

// onEachBackend runs test twice: with a server that has an embedded store, and with one
// that has new tables in DynamoDB Local. env is added to the environment of both.
func onEachBackend(t *testing.T, env []string, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, env...)))
	})
	t.Run("DynamoDB", func(t *testing.T) {
		t.Parallel()
		env := append([]string{"DATA_DIR=" + t.TempDir()}, env...)
		for variable, table := range map[string]string{"COUNTERS_TABLE": "CountersTable", "ENTITIES_TABLE": "EntitiesTable", "EVENTS_TABLE": "EventsTable", "EXPORT_JOBS_TABLE": "ExportJobsTable", "ERASURE_JOBS_TABLE": "ErasureJobsTable"} {
			env = append(env, variable+"="+dynamolocal.Table(t, table))
		}
		test(t, startIn(t, env, "--dynamodb", dynamolocal.Endpoint(t)))
	})
}

// stop interrupts the server as Ctrl-C does, and returns the output of the server. The server
// must end without an error.
func (s *server) stop(t *testing.T) string {
	t.Helper()
	if err := s.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatalf("%v: %s", err, s.Log())
	}
	return s.Log()
}

var lastAddress atomic.Int32

// client calls a server from its own IP address.
type client struct {
	*http.Client
	url     string
	address string
}

func (s *server) client(t *testing.T) *client {
	n := lastAddress.Add(1)
	return s.clientAt(t, fmt.Sprintf("127.1.%d.%d", n/200, n%200+1))
}

func (s *server) clientAt(t *testing.T, address string) *client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{Client: &http.Client{Transport: transport, Timeout: 20 * time.Second}, url: s.url, address: address}
}

// response is a response whose body has been read.
type response struct {
	method, target string // method and target of the request

	status int
	header http.Header
	body   string
}

func (r response) reset(t *testing.T) int64 {
	t.Helper()
	n, err := strconv.ParseInt(r.header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		t.Fatalf("X-RateLimit-Reset of %d %s: %v", r.status, r.body, err)
	}
	return n
}

// do sends a request. A nonempty body is sent as JSON. header has pairs of name and value.
func (c *client) do(t *testing.T, method, target, body string, header ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, c.url+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body has been read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{method, target, resp.StatusCode, resp.Header, string(b)}
}

// check is like do, and fails the test unless the response matches openapi.yaml.
func (c *client) check(t *testing.T, method, target, body string, header ...string) response {
	t.Helper()
	r := c.do(t, method, target, body, header...)
	r.describedIn(t)
	return r
}

// describedIn fails the test unless r matches openapi.yaml.
func (r response) describedIn(t *testing.T) {
	t.Helper()
	if err := spec.Check(openapitest.Response{Method: r.method, Target: r.target, Status: r.status, Header: r.header, Body: []byte(r.body)}); err != nil {
		t.Error(err)
	}
}

// want is like check, and fails the test unless the response has the given status.
func (c *client) want(t *testing.T, status int, method, target, body string) response {
	t.Helper()
	r := c.check(t, method, target, body)
	if r.status != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, target, r.status, status, r.body)
	}
	return r
}

// seed creates n entities e0000… and n events v0000….
func seed(t *testing.T, s *server, n int) {
	t.Helper()
	c := s.client(t)
	for i := range n {
		c.create(t, "/create_entity", fmt.Sprintf(`{"id":"e%04d"}`, i))
		c.create(t, "/create_event", fmt.Sprintf(`{"id":"v%04d","name":"n"}`, i))
	}
}

// create creates a record. If the request is refused, it waits as the response says and
// retries.
func (c *client) create(t *testing.T, target, body string) {
	t.Helper()
	for range 10 {
		r := c.do(t, "POST", target, body)
		switch r.status {
		case http.StatusCreated, http.StatusOK:
			return
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
			if err != nil {
				t.Fatalf("Retry-After: %v", err)
			}
			<-time.After(time.Duration(seconds) * time.Second)
		default:
			t.Fatalf("POST %s: status %d: %s", target, r.status, r.body)
		}
	}
	t.Fatalf("POST %s: no success in ten tries", target)
}

// oneWindow runs play with a new client at the beginning of a second. It repeats this until
// all responses fall into one window.
func oneWindow(t *testing.T, s *server, play func(c *client) []response) {
	t.Helper()
	for range 20 {
		c := s.client(t)
		now := time.Now()
		select {
		case <-time.After(now.Truncate(time.Second).Add(time.Second + 5*time.Millisecond).Sub(now)):
		case <-t.Context().Done():
			return
		}
		responses := play(c)
		for _, r := range responses {
			r.describedIn(t)
		}
		if responses[0].reset(t) == responses[len(responses)-1].reset(t) {
			return
		}
		t.Log("the requests took longer than a window; trying again")
	}
	t.Fatal("the requests never fit into one window; the machine is too slow for this test")
}

func TestRecordsPerSecond(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	seed(t, s, 200)
	type get struct {
		target string
		times  int
		status int
	}
	for name, gets := range map[string][]get{
		"1 x 200":                       {{"/entity?limit=200", 1, 200}, {"/entity?limit=1", 1, 429}},
		"4 x 50":                        {{"/entity?limit=50", 4, 200}, {"/entity?limit=1", 1, 429}},
		"200 x 1":                       {{"/entity?limit=1", 200, 200}, {"/event?limit=1", 1, 429}},
		"200 x 1 by id":                 {{"/entity/e0007", 200, 200}, {"/event?limit=1", 1, 429}},
		"3 x 60, then 30, then 20":      {{"/entity?limit=60", 3, 200}, {"/entity?limit=30", 1, 429}, {"/entity?limit=20", 1, 200}, {"/entity?limit=1", 1, 429}},
		"over /entity and /event":       {{"/entity?limit=100", 1, 200}, {"/event?limit=100", 1, 200}, {"/entity?limit=1", 1, 429}, {"/event?limit=1", 1, 429}},
		"a 404 or 400 costs no records": {{"/entity/none", 5, 404}, {"/entity?limit=0", 5, 400}, {"/entity?limit=200", 1, 200}, {"/entity?limit=1", 1, 429}},
	} {
		t.Run(name, func(t *testing.T) {
			oneWindow(t, s, func(c *client) (responses []response) {
				var wrong []string
				for _, g := range gets {
					for i := range g.times {
						r := c.do(t, "GET", g.target, "")
						responses = append(responses, r)
						if r.status != g.status {
							wrong = append(wrong, fmt.Sprintf("%s, number %d: status %d, want %d", g.target, i, r.status, g.status))
						}
						if g.status == 429 && (!strings.Contains(r.body, `"violated-policies":["records`) || r.header.Get("Retry-After") != "1" || r.header.Get("X-RateLimit-Remaining") != "0") {
							wrong = append(wrong, fmt.Sprintf("a 429 with the headers %v and the body %s", r.header, r.body))
						}
					}
				}
				// Responses in two windows prove nothing, so the test repeats them.
				if len(wrong) > 0 && responses[0].reset(t) == responses[len(responses)-1].reset(t) {
					t.Error(strings.Join(wrong, "\n"))
				}
				return responses
			})
		})
	}
}

func TestImportsPerSecond(t *testing.T) {
	t.Parallel()
	const connections, fullWindows = 8, 3
	s := start(t, t.TempDir())
	forged := []string{"X-Forwarded-For", "", "X-Real-IP", "", "Forwarded", ""}
	type tally struct{ accepted, refused int }
	flood := func(c *client) map[int64]tally {
		var mu sync.Mutex
		windows := make(map[int64]tally)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for worker := range 2 * connections {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					header := append([]string(nil), forged...)
					header[1], header[3] = fmt.Sprintf("10.0.%d.%d", worker, n%250), fmt.Sprintf("10.1.%d.%d", worker, n%250)
					header[5] = "for=" + header[1]
					r := c.do(t, "POST", "/create_event", `{"name":"n"}`, header...)
					mu.Lock()
					w := windows[r.reset(t)]
					switch r.status {
					case http.StatusCreated:
						w.accepted++
					case http.StatusTooManyRequests:
						w.refused++
					default:
						t.Errorf("status %d: %s", r.status, r.body)
					}
					windows[r.reset(t)] = w
					busy := 0
					for _, w := range windows {
						if w.refused > 0 {
							busy++
						}
					}
					// The first and the last window may be partial.
					if busy == fullWindows+2 {
						select {
						case <-done:
						default:
							close(done)
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return windows
	}
	var wg sync.WaitGroup
	for range 2 { // two addresses at the same time, 200 requests each
		c := s.client(t)
		wg.Go(func() {
			for reset, w := range flood(c) {
				t.Logf("%s, window %d: %d accepted, %d refused", c.address, reset-1, w.accepted, w.refused)
				if w.accepted > 200 || w.refused > 0 && w.accepted != 200 {
					t.Errorf("%s, window %d: %d accepted with %d refused, want 200", c.address, reset-1, w.accepted, w.refused)
				}
			}
		})
	}
	wg.Wait()
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	c := s.client(t)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"taken"}`)
	forged := "eyJyIjoibGlzdC1ldmVudCIsInciOiJkZWZhdWx0IiwiaSI6ImEifQ" // a cursor of another list
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	tests := []struct {
		name, method, target, body string
		header                     []string
		status                     int
		says                       string // text in the problem
	}{
		{name: "bad JSON", method: "POST", target: "/create_event", body: `{"name":`, status: 400, says: "well-formed"},
		{name: "two values", method: "POST", target: "/create_event", body: `{"name":"a"}{}`, status: 400, says: "other text follows it"},
		{name: "duplicate member", method: "POST", target: "/create_event", body: `{"name":"a","name":"b"}`, status: 400, says: "duplicate"},
		{name: "lone surrogate", method: "POST", target: "/create_event", body: `{"name":"\ud800"}`, status: 400, says: "surrogate"},
		{name: "not UTF-8", method: "POST", target: "/create_event", body: "{\"name\":\"\xff\"}", status: 400, says: "UTF-8"},
		{name: "no body", method: "POST", target: "/create_event", header: []string{"Content-Type", "application/json"}, status: 400, says: "empty"},
		{name: "not an object", method: "POST", target: "/create_entity", body: `[1]`, status: 400, says: "object"},
		{name: "wrong type", method: "POST", target: "/create_event", body: `{"name":5}`, status: 422, says: "name must be a string"},
		{name: "attributes of a wrong type", method: "POST", target: "/create_entity", body: `{"attributes":[]}`, status: 422, says: "attributes must be a JSON object"},
		{name: "missing name", method: "POST", target: "/create_event", body: `{}`, status: 422, says: "name is required"},
		{name: "unknown field", method: "POST", target: "/create_event", body: `{"name":"a","nmae":"b"}`, status: 422, says: "nmae is not a field"},
		{name: "bad id", method: "POST", target: "/create_entity", body: `{"id":"a b"}`, status: 422, says: "id must be"},
		{name: "empty id", method: "POST", target: "/create_entity", body: `{"id":""}`, status: 422, says: "id must be"},
		{name: "long id", method: "POST", target: "/create_entity", body: `{"id":"` + strings.Repeat("a", 129) + `"}`, status: 422, says: "id must be"},
		{name: "long name", method: "POST", target: "/create_event", body: `{"name":"` + strings.Repeat("é", 129) + `"}`, status: 422, says: "name must be"},
		{name: "bad time", method: "POST", target: "/create_event", body: `{"name":"a","occurred_at":"yesterday"}`, status: 422, says: "RFC 3339"},
		{name: "empty entity_id", method: "POST", target: "/create_event", body: `{"name":"a","entity_id":""}`, status: 422, says: "entity_id must be"},
		{name: "deep nesting", method: "POST", target: "/create_entity", body: `{"attributes":` + deep + `}`, status: 422, says: "nested deeper than 32"},
		{name: "very deep nesting", method: "POST", target: "/create_entity", body: `{"attributes":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, status: 400, says: "depth"},
		{name: "other content", method: "POST", target: "/create_entity", body: `{"id":"taken","type":"other"}`, status: 409, says: "taken"},
		{name: "body too large", method: "POST", target: "/create_entity", body: `{"attributes":{"a":"` + strings.Repeat("x", 300<<10) + `"}}`, status: 413, says: "larger than 262144"},
		{name: "body far too large", method: "POST", target: "/create_entity", body: strings.Repeat("x", 12<<20), status: 413, says: "larger than 262144"},
		{name: "form", method: "POST", target: "/create_entity", body: `{}`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, says: "application/json"},
		{name: "other charset", method: "POST", target: "/create_entity", body: `{}`, header: []string{"Content-Type", "application/json; charset=latin1"}, status: 415, says: "UTF-8"},
		{name: "limit=0", method: "GET", target: "/entity?limit=0", status: 400, says: "limit must be a whole number from 1 to 200"},
		{name: "limit=x", method: "GET", target: "/entity?limit=x", status: 400, says: "limit must be"},
		{name: "limit=201", method: "GET", target: "/entity?limit=201", status: 400, says: "limit must be"},
		{name: "limit=-1", method: "GET", target: "/event?limit=-1", status: 400, says: "limit must be"},
		{name: "limit=", method: "GET", target: "/event?limit=", status: 400, says: "limit must be"},
		{name: "limit twice", method: "GET", target: "/entity?limit=1&limit=2", status: 400, says: "more than once"},
		{name: "unknown parameter", method: "GET", target: "/entity?lmit=1", status: 400, says: "lmit is not a parameter"},
		{name: "bad escape", method: "GET", target: "/entity?limit=%zz", status: 400, says: "percent-encode"},
		{name: "forged cursor", method: "GET", target: "/entity?cursor=abc", status: 400, says: "cursor is not a cursor"},
		{name: "cursor of another list", method: "GET", target: "/entity?cursor=" + forged, status: 400, says: "cursor is not a cursor"},
		{name: "empty cursor", method: "GET", target: "/event?cursor=", status: 400, says: "cursor is not a cursor"},
		{name: "unknown id", method: "GET", target: "/entity/nobody", status: 404, says: "nobody"},
		{name: "bad id in the path", method: "GET", target: "/entity/a%20b", status: 400, says: "id in the path"},
		{name: "escaped slash in the path", method: "GET", target: "/entity/a%2Fb", status: 400, says: "id in the path"},
		{name: "control character in the path", method: "GET", target: "/entity/%00%0a", status: 400, says: "id in the path"},
		{name: "percent in the path", method: "GET", target: "/%25zz", status: 404, says: "no route"},
		{name: "unknown path", method: "GET", target: "/entities", status: 404, says: "no route GET /entities"},
		{name: "trailing slash", method: "GET", target: "/entity/", status: 404, says: "no route"},
		{name: "wrong method", method: "DELETE", target: "/entity", status: 405, says: "use GET"},
		{name: "wrong method for an id", method: "PUT", target: "/entity/a", status: 405, says: "use GET"},
		{name: "wrong method for a create", method: "GET", target: "/create_event", status: 405, says: "use POST"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := c.check(t, tt.method, tt.target, tt.body, tt.header...)
			if r.status != tt.status || r.header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("status %d, want %d; %s: %s", r.status, tt.status, r.header.Get("Content-Type"), r.body)
			}
			var p struct {
				Type, Title, Detail, Instance, Code string
				Status                              int
			}
			if err := json.Unmarshal([]byte(r.body), &p); err != nil {
				t.Fatal(err)
			}
			if p.Status != tt.status || p.Type == "" || p.Title == "" || p.Code == "" || p.Instance == "" {
				t.Errorf("problem %+v", p)
			}
			if !strings.Contains(p.Detail, tt.says) {
				t.Errorf("the detail %q does not contain %q", p.Detail, tt.says)
			}
			if allow := r.header.Get("Allow"); (allow != "") != (tt.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
			checkLimitHeaders(t, r)
		})
	}
}

func checkLimitHeaders(t *testing.T, r response) {
	t.Helper()
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"} {
		if r.header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
}

func TestRecordsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.client(t)
	created := c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","attributes":{"n":1.50}}`)
	event := c.want(t, http.StatusCreated, "POST", "/create_event", `{"name":"signed_up","entity_id":"ada"}`)
	if rest := s.stop(t); !strings.Contains(rest, "Stopped.") {
		t.Errorf("it printed %q", rest)
	}

	s = start(t, dir)
	c = s.client(t)
	if got := c.want(t, http.StatusOK, "GET", "/entity/ada", ""); got.body != created.body {
		t.Errorf("read back %s, created %s", got.body, created.body)
	}
	if got := c.want(t, http.StatusOK, "GET", "/event", ""); !strings.Contains(got.body, strings.TrimSpace(event.body)) {
		t.Errorf("the list %s lacks %s", got.body, event.body)
	}
	if got := c.want(t, http.StatusOK, "POST", "/create_entity", `{"attributes":{"n":1.50},"id":"ada"}`); got.body != created.body {
		t.Errorf("the repeated create returned %s, the first one %s", got.body, created.body)
	}
	s.stop(t)
}

// walk follows the Link headers of a list to its last page and returns the ids.
func walk(t *testing.T, c *client, target string) (ids []string) {
	t.Helper()
	for target != "" {
		r := c.want(t, http.StatusOK, "GET", target, "")
		var page struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			NextCursor *string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Data {
			ids = append(ids, e.ID)
		}
		link := r.header.Get("Link")
		if (link == "") != (page.NextCursor == nil) {
			t.Fatalf("next_cursor %v with the header Link: %s", page.NextCursor, link)
		}
		next, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if next != "" && !strings.Contains(next, "cursor="+url.QueryEscape(*page.NextCursor)) {
			t.Fatalf("the Link %s does not lead to the cursor %s", next, *page.NextCursor)
		}
		target = next
	}
	return ids
}

func TestPages(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"embedded": nil, "DynamoDB": {"--dynamodb"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(args) > 0 {
				args = append(args, dynamolocal.Endpoint(t))
			}
			s := start(t, t.TempDir(), args...)
			seed(t, s, 40)
			for _, limit := range []int{1, 7, 40, 200} {
				c := s.client(t)
				entities := walk(t, c, fmt.Sprintf("/entity?limit=%d", limit))
				events := walk(t, c, fmt.Sprintf("/event?limit=%d", limit))
				if len(entities) != 40 || len(events) != 40 {
					t.Fatalf("limit %d: %d entities and %d events, want 40 each", limit, len(entities), len(events))
				}
				for i := range entities {
					if want := fmt.Sprintf("e%04d", i); entities[i] != want {
						t.Errorf("limit %d: entity %d is %s, want %s", limit, i, entities[i], want)
					}
					if want := fmt.Sprintf("v%04d", 39-i); events[i] != want {
						t.Errorf("limit %d: event %d is %s, want %s (newest first)", limit, i, events[i], want)
					}
				}
			}
		})
	}
}

// Without API keys, a local server rejects other host names than those of the loopback
// address, so that a web page cannot read from it by DNS rebinding. With API keys, it accepts
// any host name.
func TestServeTakesOnlyLoopbackNamesWithoutKeys(t *testing.T) {
	for mode, status := range map[string]int{"none": 403, "api-key": 200} {
		s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=" + mode})
		c := s.client(t)
		for host, want := range map[string]int{"rebound.example": status, "localhost:3000": 200, c.url[len("http://"):]: 200} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/openapi.yaml", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close() //nolint:errcheck // the body is not read
			if resp.StatusCode != want {
				t.Errorf("AUTH_MODE=%s, host %s: %d, want %d", mode, host, resp.StatusCode, want)
			}
		}
	}
}

func TestServeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"the data directory is in use", []string{"ADDR=127.0.0.1:0", "DATA_DIR=" + dir}, nil, "in use by another process"},
		{"the address is in use", []string{"ADDR=" + strings.TrimPrefix(s.url, "http://"), "DATA_DIR=" + t.TempDir()}, nil, "choose another address"},
		{"a limit is no number", []string{"LIMIT_RECORDS=many", "DATA_DIR=" + t.TempDir()}, nil, `LIMIT_RECORDS="many" must be a whole number from 1`},
		{"an argument too many", nil, []string{"now"}, "unknown command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(program, append([]string{"serve"}, tt.args...)...)
			cmd.Env = append(os.Environ(), tt.env...)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("error %v, output %s; want %q", err, out, tt.want)
			}
		})
	}
}
