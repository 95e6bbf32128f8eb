// Package serve measures `sluice serve` under load, beside an HTTP server that
// answers hello.
package serve

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/bench/report"
)

const (
	rounds      = 5 // odd, for a median
	connections = 64
	reads       = 20_000 // of a round
	imports     = 4_000  // of a round

	// allReads are those between whose quarter and whose end memory is to stay
	// flat, unless BENCH_REQUESTS says less.
	allReads = 1_000_000
)

const body = `{"name":"order_signed","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.250Z",` +
	`"attributes":{"plan":"team","seats":12,"amount":149.90,"currency":"EUR","tags":["renewal","annual"]}}`

// Requests, each with the status of its answer.
var (
	getEntity    = request{"GET /entity/ada HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nUser-Agent: bench\r\n\r\n", "200"}
	createEntity = post("/create_entity", `{"id":"ada","type":"person","attributes":{"name":"Ada Lovelace","born":1815,"field":"mathematics"}}`)
	createEvent  = post("/create_event", body)
)

type request struct{ text, status string }

func post(path, body string) request {
	return request{fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body), "201"}
}

// Measure compares the servers.
func Measure(t *testing.T) []report.Section {
	t.Helper()
	bin := t.TempDir()
	build(t, ".", "./cmd/sluice", filepath.Join(bin, "sluice"))
	build(t, "bench", "./serve/hello", filepath.Join(bin, "hello"))
	return []report.Section{compare(t, bin), memory(t, bin)}
}

// compare measures in rounds, the servers one after the other.
func compare(t *testing.T, bin string) report.Section {
	t.Helper()
	sluice, hello := startSluice(t, bin), start(t, filepath.Join(bin, "hello"))
	subjects := []*subject{
		{name: "bare net/http", what: "hello", load: hello.dial(t), request: getEntity, n: reads},
		{name: "sluice serve", what: "`GET /entity/{id}`", load: sluice.dial(t), request: getEntity, n: reads},
		{name: "sluice serve", what: "`POST /create_event`, on disk", load: sluice.dial(t), request: createEvent, n: imports},
	}
	for _, s := range subjects {
		s.measure(t) // connections and caches
	}
	for _, s := range subjects {
		s.runs = nil
	}
	for range rounds {
		for _, s := range subjects {
			s.measure(t)
		}
	}
	base := subjects[0]
	var rows [][]string
	for _, s := range subjects {
		s.load.close()
		rows = append(rows, []string{s.name, s.what,
			report.Number(s.median(func(r run) float64 { return r.perSecond })),
			report.Number(s.median(func(r run) float64 { return float64(r.p50) / 1e6 })),
			report.Number(s.median(func(r run) float64 { return float64(r.p99) / 1e6 })),
			report.Number(s.times(base)),
		})
	}
	claim := report.AtLeast("`GET /entity/{id}` a second, of the bare server's requests", subjects[1].times(base), 0.5)
	claim.Why = "by its profile half of the server's time is net/http's, the bare server's too, and an eighth reading the record; " +
		"the rest is what a deployment does: an API Gateway event of the request, the adapter, the route, a response"
	return report.Section{
		Title: "A server on this machine under load",
		About: fmt.Sprintf("`sluice serve` as `make run` starts it (embedded store, access keys off), with limits that refuse nothing, and a net/http server that answers hello, each a process. "+
			"One client loads them by turns over %d kept connections from %d loopback addresses, each a request after the other: %d rounds of %d reads and of %d imports, medians. "+
			"The client shares the machine; it sends ready bytes and reads of an answer its status and length alone, for both servers alike, and its part is in both figures. "+
			"An import is on disk when it is answered; imports that arrive together share a sync.",
			connections, addresses, rounds, reads, imports),
		Header: []string{"Server", "Request", "A second", "p50 ms", "p99 ms", "Of the bare server's"},
		Rows:   rows,
		Claims: []report.Claim{claim},
	}
}

// memory watches a server that was just started.
func memory(t *testing.T, bin string) report.Section {
	t.Helper()
	last := allReads
	if text := os.Getenv("BENCH_REQUESTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			t.Fatalf("BENCH_REQUESTS=%q must be a whole number from 1000", text)
		}
		last = n
	}
	sluice := startSluice(t, bin)
	s := &subject{name: "sluice serve", load: sluice.dial(t), request: getEntity}
	defer s.load.close()
	var rows [][]string
	sent := 0
	resident := make(map[int]float64)
	for _, until := range []int{last / 10, last / 4, last / 2, last} {
		s.n = until - sent
		s.measure(t)
		sent = until
		resident[until] = float64(sluice.resident(t))
		rows = append(rows, []string{strconv.Itoa(until), report.Number(resident[until] / 1024)})
	}
	return report.Section{
		Title:  "Memory of a server on this machine",
		About:  fmt.Sprintf("Resident memory (VmRSS) of `sluice serve` after so many reads by id over %d connections, from its start.", connections),
		Header: []string{"Requests", "MiB"},
		Rows:   rows,
		Claims: []report.Claim{report.AtMost(fmt.Sprintf("resident memory after %d requests, times that after %d", last, last/4), resident[last]/resident[last/4], 1.1)},
	}
}

// subject is a server and what it is asked.
type subject struct {
	name, what string
	load       *load
	request    request
	n          int // requests of a round
	runs       []run
}

func (s *subject) measure(t *testing.T) {
	t.Helper()
	r, err := s.load.send([]byte(s.request.text), s.request.status, s.n)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	s.runs = append(s.runs, r)
}

func (s *subject) median(of func(run) float64) float64 {
	values := make([]float64, len(s.runs))
	for i, r := range s.runs {
		values[i] = of(r)
	}
	return middle(values)
}

// times is the median, over the rounds, of s's requests a second by base's.
func (s *subject) times(base *subject) float64 {
	values := make([]float64, len(s.runs))
	for i, r := range s.runs {
		values[i] = r.perSecond / base.runs[i].perSecond
	}
	return middle(values)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func build(t *testing.T, module, pkg, out string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Dir = module
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
}

// server is a process that listens.
type server struct {
	pid     int
	address string
}

var listens = regexp.MustCompile(`listens on http://(\S+)`)

// start runs a program that prints its address, until the test ends.
func start(t *testing.T, program string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=1000000", "LIMIT_REQUESTS=1000000", "AUTH_MODE=")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // what else it has to say must not stop it
				}
			}()
			return &server{pid: cmd.Process.Pid, address: m[1]}
		}
	}
	t.Fatalf("%s ended without an address", program)
	return nil
}

// startSluice starts the service with an entity to read.
func startSluice(t *testing.T, bin string) *server {
	t.Helper()
	s := start(t, filepath.Join(bin, "sluice"), "serve", "--addr", "127.0.0.1:0", "--data-dir", t.TempDir())
	one, err := dial(s.address, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	if _, err := one.send([]byte(createEntity.text), createEntity.status, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) dial(t *testing.T) *load {
	t.Helper()
	l, err := dial(s.address, connections)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// resident is VmRSS in kB (proc_pid_status(5)).
func (s *server) resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmRSS of %d", s.pid)
	return 0
}
