// Package coldstart measures what a cold start of each function takes: the size
// of what Lambda fetches, the time from exec to the first poll for an event, and
// the first request after it beside later ones.
package coldstart

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/bench/report"
	"sluice/internal/lambdatest"
)

const (
	root = "." // the repository, which is the working directory

	starts = 15 // processes of each function whose time to the first poll is taken

	// In the series of requests: processes of each function, requests to each,
	// and what the stand-in for DynamoDB takes to accept a connection, as a
	// handshake does, and to answer.
	processes = 4
	requests  = 10
	accept    = 30 * time.Millisecond
	answer    = 4 * time.Millisecond
)

// What line 4 of the claims allows.
const (
	mostStart = 1.15 // times the bare function's time from exec to the first poll
	mostZip   = 3.5  // MB
	mostFirst = 1.5  // times a later request's time
)

// function is a program that is measured, and what was found.
type function struct {
	name        string
	binary      string   // for this machine
	env         []string // beside what all have
	size, zip   float64  // MB, for arm64; 0 for one that is only started
	start       []time.Duration
	bare, warm  []time.Duration // of the bare function, started after each: as it is, and with a call
	first, then []time.Duration // of requests; none for a function that no request reaches
}

// Measure measures every function beside a bare one.
func Measure(t *testing.T) []report.Section {
	folders, err := filepath.Glob(filepath.Join(root, "functions", "*", "main.go"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no functions in %s: %v", root, err)
	}
	var functions []*function
	for _, folder := range folders {
		functions = append(functions, build(t, filepath.Base(filepath.Dir(folder)), root, "sluice/functions/"+filepath.Base(filepath.Dir(folder))))
	}
	bare := build(t, "bare", "bench", "sluice/bench/coldstart/bare")
	warm := &function{name: "bare, with a call", binary: bare.binary, env: []string{"CALLS=1"}}
	environment := &function{name: "bare, configured from the environment", binary: bare.binary, env: []string{"BARE=environment"}}
	ten := &function{name: "bare, with ten calls at once", binary: bare.binary, env: []string{"CALLS=10"}}
	functions = append(functions, environment)

	at := serve(t, 0, 0)
	for range starts {
		for _, f := range functions {
			f.start = append(f.start, start(t, f, at))
			f.bare = append(f.bare, start(t, bare, at))
			if f.name == "create-events" { // warms as many connections
				f.warm = append(f.warm, start(t, ten, at))
			} else {
				f.warm = append(f.warm, start(t, warm, at))
			}
		}
	}
	at = serve(t, accept, answer)
	for range processes {
		for _, f := range functions {
			f.request(t, at)
		}
	}
	for _, f := range functions {
		bare.start = append(bare.start, f.bare...)
		if f.name != "create-events" {
			warm.start = append(warm.start, f.warm...)
		}
	}
	for _, f := range []*function{bare, warm} {
		f.bare, f.warm = bare.start, warm.start
	}
	return []report.Section{section(append([]*function{bare, warm}, functions...))}
}

func section(functions []*function) report.Section {
	s := report.Section{
		Title: "Cold start and size",
		About: fmt.Sprintf("The binaries of the functions on the Lambda Runtime API, beside a bare one: aws-lambda-go and a DynamoDB client of the SDK's default configuration, built with the same flags. "+
			"Sizes are for arm64, zipped by gzip at its default level, as SAM zips. "+
			"From exec to the first poll: medians of %d processes of each function, each followed by the bare one, as it is and with such a call as warms the functions' connections (create-events: ten); a stand-in for DynamoDB accepts and answers at once. "+
			"The ratio is to the bare one, less what the call adds to that. "+
			"Requests: medians of %d processes with %d requests each; a connection takes %v, an answer %v.",
			starts, processes, requests, accept, answer),
		Header: []string{"Function", "Binary, MB", "Zip, MB", "Exec to poll, ms", "Ratio", "First request, ms", "Later, ms"},
	}
	for _, f := range functions {
		took := median(f.start)
		net := took
		if f.size > 0 && f.name != "bare" && f.name != "export-worker" && f.name != "export-monitor" { // they make no such call
			net -= median(f.warm) - median(f.bare)
		}
		ratio := float64(net) / float64(median(f.bare))
		row := []string{f.name, report.Number(f.size), report.Number(f.zip), ms(took), report.Number(ratio), "–", "–"}
		if f.size == 0 {
			row[1], row[2] = "–", "–"
		}
		if len(f.first) > 0 {
			row[5], row[6] = ms(median(f.first)), ms(median(f.then))
		}
		s.Rows = append(s.Rows, row)
		if f.size == 0 || f.name == "bare" {
			continue
		}
		start := report.AtMost(f.name+": exec to first poll ÷ that of the bare function", ratio, mostStart)
		if f.name == "export-worker" {
			start.Why = "it makes two clients, DynamoDB's and S3's, where the bare function makes one, and no request waits for its start"
		}
		s.Claims = append(s.Claims, start,
			report.AtMost(f.name+": zip, MB", f.zip, mostZip))
		if len(f.first) > 0 {
			s.Claims = append(s.Claims, report.AtMost(f.name+": first request ÷ a later one", float64(median(f.first))/float64(median(f.then)), mostFirst))
		}
	}
	return s
}

func ms(d time.Duration) string { return report.Number(float64(d.Microseconds()) / 1000) }

func median(d []time.Duration) time.Duration {
	slices.SortFunc(d, cmp.Compare)
	return d[len(d)/2]
}

// build builds a package for this machine, and takes the size that it has as
// deployed.
func build(t *testing.T, name, dir, pkg string) *function {
	deploy, here := filepath.Join(t.TempDir(), "bootstrap"), filepath.Join(t.TempDir(), "bootstrap")
	lambdatest.Compile(t, dir, pkg, "arm64", deploy)
	lambdatest.Compile(t, dir, pkg, runtime.GOARCH, here)
	deployed, err := os.Stat(deploy)
	if err != nil {
		t.Fatal(err)
	}
	// Go's own deflate leaves 3 % more than zlib's, with which SAM zips.
	zipped, err := exec.Command("gzip", "-c", deploy).Output()
	if err != nil {
		t.Fatalf("gzip: %v", err)
	}
	return &function{name: name, binary: here, size: float64(deployed.Size()) / 1e6, zip: float64(len(zipped)) / 1e6}
}

// start starts a process and tells how long it was until it asked for an event.
func start(t *testing.T, f *function, endpoint string) time.Duration {
	i, took := run(t, f, endpoint)
	i.Stop()
	return took
}

func run(t *testing.T, f *function, endpoint string) (*lambdatest.Instance, time.Duration) {
	begun := time.Now()
	i, err := lambdatest.Run(f.binary, append([]string{
		"AUTH_MODE=none", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "EXPORT_FILE_DAYS=1", "EXPORT_JOBS_BUCKET=bucket",
		"COUNTERS_TABLE=counters", "ENTITIES_TABLE=entities", "EVENTS_TABLE=events", "EXPORT_JOBS_TABLE=jobs"}, f.env...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Ready(t.Context()); err != nil {
		i.Stop()
		t.Fatalf("%s: %v", f.name, err)
	}
	return i, time.Since(begun)
}

// request starts a process and sends it requests of the function's example, if
// any request reaches it.
func (f *function) request(t *testing.T, endpoint string) {
	event, err := os.ReadFile(filepath.Join(root, "events", f.name+".json"))
	if os.IsNotExist(err) {
		return // a bare one
	}
	if err != nil {
		t.Fatal(err)
	}
	var ev events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(event, &ev); err != nil {
		t.Fatal(err)
	}
	if ev.RequestContext.HTTP.Method == "" {
		return // it takes other events
	}
	i, _ := run(t, f, endpoint)
	defer i.Stop()
	for n := range requests {
		begun := time.Now()
		resp, err := i.Invoke(t.Context(), ev)
		took := time.Since(begun)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		if resp.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("%s: %d %s", f.name, resp.StatusCode, resp.Body)
		}
		if n == 0 {
			f.first = append(f.first, took)
		} else {
			f.then = append(f.then, took)
		}
	}
}

// serve starts the stand-in for DynamoDB: tables that are empty whatever is
// written.
func serve(t *testing.T, accept, answer time.Duration) (endpoint string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) //nolint:errcheck // what is lost is not found below
		time.Sleep(answer)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if strings.Contains(string(body), `"attribute_exists(pk)"`) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`) //nolint:errcheck // the client fails
			return
		}
		io.WriteString(w, `{}`) //nolint:errcheck // the client fails
	})}
	go server.Serve(slowListener{listener, accept}) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })            //nolint:errcheck // nothing is lost
	return "http://" + listener.Addr().String()
}

// slowListener gives connections that are open only after a while.
type slowListener struct {
	net.Listener
	after time.Duration
}

func (l slowListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: conn, open: time.Now().Add(l.after)}, nil
}

type slowConn struct {
	net.Conn
	open time.Time
}

func (c *slowConn) Read(p []byte) (int, error) {
	time.Sleep(time.Until(c.open))
	return c.Conn.Read(p)
}
