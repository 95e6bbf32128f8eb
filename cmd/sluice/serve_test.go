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
	"runtime/debug"
	"slices"
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
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
)

var (
	program string            // path of the program under test, built by TestMain
	racing  string            // path of the program that serves, built with the race detector if the tests are
	spec    *openapitest.Spec // openapi.yaml, which all responses must match
)

func TestMain(m *testing.M) {
	// Otherwise, every program with the race detector ends a second late, for races just before its end.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=20") //nolint:errcheck // fails only for an invalid name
	}
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
	program, racing = filepath.Join(dir, "sluice"), filepath.Join(dir, "sluice")
	builds := [][]string{{"-o", program}}
	// Commands are without the race detector, with which each takes several times as long to start. The
	// tests of the packages that do their work have it.
	if raceDetector() {
		racing = filepath.Join(dir, "sluice-racing")
		builds = append(builds, []string{"-race", "-o", racing})
	}
	for _, flags := range builds {
		if out, err := exec.Command("go", append([]string{"build", "-ldflags", "-s -w"}, flags...)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

type server struct {
	*child.Process
	url  string
	env  []string // added to the environment
	args []string // arguments of serve
}

// start runs "sluice serve" on a free port. At the end of the test, the server must stop
// without an error.
func start(t *testing.T, dataDir string, args ...string) *server {
	t.Helper()
	return startIn(t, []string{"DATA_DIR=" + dataDir}, args...)
}

// startIn is like start, but takes environment variables instead of a data directory.
func startIn(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(racing, append([]string{"serve"}, args...)...)
	cmd.Env = append(append(os.Environ(), "ADDR=127.0.0.1:0"), env...)
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		secrettest.Check(t, "sluice serve", p.Log())
	})
	url, err := p.ReadyText(t.Context(), `Sluice listens on (\S+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{p, url, env, args}
	t.Cleanup(func() {
		select {
		case <-s.Exited(): // the test stopped or killed the server
		default:
			s.stop(t)
		}
	})
	return s
}

// onEachBackend runs a test twice: with a server on an embedded store and with a server on new
// tables in DynamoDB Local. Both servers get env in addition to their own environment.
func onEachBackend(t *testing.T, env []string, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, env...)))
	})
	t.Run("DynamoDB", func(t *testing.T) {
		t.Parallel()
		env := append([]string{"DATA_DIR=" + t.TempDir()}, env...)
		for _, name := range []string{"Counters", "Entities", "Events", "Keys", "Limits"} {
			env = append(env, strings.ToUpper(name)+"_TABLE="+dynamolocal.Table(t, name+"Table"))
		}
		env = append(env, "EXPORT_JOBS_TABLE="+dynamolocal.Table(t, "ExportJobsTable"), "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"))
		test(t, startIn(t, env, "--dynamodb", dynamolocal.Endpoint(t)))
	})
}

// stop interrupts the server as Ctrl-C does. The server must end without an error.
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

// caller is a client that sends all its requests from one address.
type caller struct {
	*http.Client
	url     string
	address string
}

func (s *server) client(t *testing.T) *caller {
	n := lastAddress.Add(1)
	return s.clientAt(t, fmt.Sprintf("127.1.%d.%d", n/200, n%200+1))
}

func (s *server) clientAt(t *testing.T, address string) *caller {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{Client: &http.Client{Transport: transport, Timeout: 20 * time.Second}, url: s.url, address: address}
}

type response struct {
	method, target string // the request's

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

// do sends body as JSON, unless it is empty. header contains alternating names and values.
func (c *caller) do(t *testing.T, method, target, body string, header ...string) response {
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
	req.Host = req.Header.Get("Host") // if empty, the URL's host is used
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

// check is like do, but the response must match openapi.yaml.
func (c *caller) check(t *testing.T, method, target, body string, header ...string) response {
	t.Helper()
	r := c.do(t, method, target, body, header...)
	r.describedIn(t)
	return r
}

func (r response) describedIn(t *testing.T) {
	t.Helper()
	if err := spec.Check(openapitest.Response{Method: r.method, Target: r.target, Status: r.status, Header: r.header, Body: []byte(r.body)}); err != nil {
		t.Error(err)
	}
}

// want is like check, but ends the test if the response has another status.
func (c *caller) want(t *testing.T, status int, method, target, body string) response {
	t.Helper()
	r := c.check(t, method, target, body)
	if r.status != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, target, r.status, status, r.body)
	}
	return r
}

// seed creates n entities e0000, e0001, … and n events v0000, v0001, ….
func seed(t *testing.T, s *server, n int) {
	t.Helper()
	var entities []entity.Draft
	var events []event.Draft
	for i := range n {
		entities = append(entities, entity.Draft{ID: fmt.Sprintf("e%04d", i)})
		events = append(events, event.Draft{ID: fmt.Sprintf("v%04d", i), Name: "n"})
	}
	c := newClient(t, s.url)
	for first := 0; first < n; first += client.MaxBatch {
		end := min(first+client.MaxBatch, n)
		_, err := c.UpsertEntities(t.Context(), entities[first:end])
		if err == nil {
			_, err = c.CreateEvents(t.Context(), events[first:end])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// oneWindow calls play with a new client at the beginning of a second. It repeats this until all
// responses fall into one window.
func oneWindow(t *testing.T, s *server, play func(c *caller) []response) {
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
			oneWindow(t, s, func(c *caller) (responses []response) {
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
				// Responses from two windows prove nothing.
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
	type tally struct{ accepted, refused int }
	flood := func(c *caller) map[int64]tally {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var mu sync.Mutex
		windows := make(map[int64]tally)
		busy := make(map[int64]bool) // windows in which a request was refused
		var wg sync.WaitGroup
		for worker := range 2 * connections {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					client, proxy := fmt.Sprintf("10.0.%d.%d", worker, n%250), fmt.Sprintf("10.1.%d.%d", worker, n%250)
					r := c.do(t, "POST", "/create_event", `{"name":"n"}`, "X-Forwarded-For", client, "X-Real-IP", proxy, "Forwarded", "for="+client)
					reset := r.reset(t)
					mu.Lock()
					w := windows[reset]
					switch r.status {
					case http.StatusCreated:
						w.accepted++
					case http.StatusTooManyRequests:
						w.refused++
						busy[reset] = true
					default:
						t.Errorf("status %d: %s", r.status, r.body)
					}
					windows[reset] = w
					if len(busy) == fullWindows+2 { // the first and the last window may be partial
						end()
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return windows
	}
	var wg sync.WaitGroup
	for range 2 { // two addresses at the same time, each with a limit of 200 imports per second
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

func checkLimitHeaders(t *testing.T, r response) {
	t.Helper()
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"} {
		if r.header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
}

type listed struct {
	ID         string
	Attributes struct{ I int }
}

// walk follows the Link headers of a list to its last page.
func walk(t *testing.T, c *caller, target string) (records []listed) {
	t.Helper()
	for target != "" {
		r := c.want(t, http.StatusOK, "GET", target, "")
		var page struct {
			Data       []listed
			NextCursor *string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		records = append(records, page.Data...)
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
	return records
}

func TestServeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for want, env := range map[string][]string{
		"in use by another process":                          {"ADDR=127.0.0.1:0", "DATA_DIR=" + dir},
		"choose another address":                             {"ADDR=" + strings.TrimPrefix(s.url, "http://")},
		`LIMIT_RECORDS="many" must be a whole number from 1`: {"LIMIT_RECORDS=many"},
	} {
		wantRun(t, inEnv(t, env, "serve"), exitFailure, "", want)
	}
}
