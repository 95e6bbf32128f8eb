// Command coldstart measures what a cold start of each function takes: the size
// of what Lambda fetches, the time from exec to the first poll for an event, and
// the first request after it beside later ones.
//
// The real binaries run on the Lambda Runtime API against a stand-in for
// DynamoDB that takes its time to accept a connection and to answer. Sizes are
// those of the deployed binaries, for arm64; the ones that run are built alike
// for this machine. Figures are medians over -runs processes of each function;
// that of later requests is over -requests in each. It exits with 1 if any
// function's first request takes more than -most times a later one.
package main

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/lambdatest"
)

func main() {
	root := flag.String("root", "..", "the repository")
	runs := flag.Int("runs", 9, "processes of each function")
	requests := flag.Int("requests", 15, "requests to each process after the first")
	accept := flag.Duration("accept", 30*time.Millisecond, "what a connection takes")
	answer := flag.Duration("answer", 4*time.Millisecond, "what an answer takes")
	most := flag.Float64("most", 1.5, "most times a later request that a first one may take")
	flag.Parse()
	if err := run(*root, *runs, *requests, *accept, *answer, *most); err != nil {
		fmt.Fprintln(os.Stderr, "coldstart:", err)
		os.Exit(1)
	}
}

func run(root string, runs, requests int, accept, answer time.Duration, most float64) error {
	folders, err := filepath.Glob(filepath.Join(root, "functions", "*", "main.go"))
	if err != nil || len(folders) == 0 {
		return fmt.Errorf("no functions in %s: %w", root, err)
	}
	endpoint, err := serve(accept, answer)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coldstart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary one

	fmt.Printf("A connection takes %v, an answer %v. Medians of %d processes, %d requests each.\n\n", accept, answer, runs, requests)
	fmt.Printf("%-18s %10s %10s %12s %10s %10s %7s\n", "function", "binary kB", "zip kB", "exec–poll ms", "first ms", "later ms", "ratio")
	var slow []string
	for _, folder := range folders {
		name := filepath.Base(filepath.Dir(folder))
		binary, zipped, err := sizes(root, dir, name)
		if err != nil {
			return err
		}
		m, err := measure(root, dir, name, endpoint, runs, requests)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("%-18s %10d %10d %12.1f", name, binary/1000, zipped/1000, ms(m.init))
		if m.later == 0 {
			fmt.Println() // no request reaches it
			continue
		}
		ratio := float64(m.first) / float64(m.later)
		fmt.Printf(" %10.1f %10.1f %7.2f\n", ms(m.first), ms(m.later), ratio)
		if ratio > most {
			slow = append(slow, name)
		}
	}
	if len(slow) > 0 {
		return fmt.Errorf("the first request takes more than %v times a later one to %s", most, strings.Join(slow, ", "))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// build builds a function like the Makefile does.
func build(root, path, function, arch string) error {
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", path, "./functions/"+function)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", function, err, out)
	}
	return nil
}

// sizes are those of the deployed binary, in bytes, as it is and zipped.
func sizes(root, dir, function string) (binary, zipped int64, err error) {
	path := filepath.Join(dir, function+"-arm64")
	if err := build(root, path, function, "arm64"); err != nil {
		return 0, 0, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	var counter counter
	z := zip.NewWriter(&counter)
	w, err := z.Create("bootstrap")
	if err != nil {
		return 0, 0, err
	}
	if _, err := w.Write(content); err != nil {
		return 0, 0, err
	}
	return int64(len(content)), counter.n, errors.Join(z.Close(), os.Remove(path))
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// measured are medians; first and later are 0 for a function that no request
// reaches.
type measured struct{ init, first, later time.Duration }

func measure(root, dir, function, endpoint string, runs, requests int) (measured, error) {
	binary := filepath.Join(dir, function)
	if err := build(root, binary, function, ""); err != nil {
		return measured{}, err
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return measured{}, err
	}
	event, err := os.ReadFile(filepath.Join(root, "events", function+".json"))
	if err != nil {
		return measured{}, err
	}
	var ev events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(event, &ev); err != nil {
		return measured{}, err
	}
	var inits, firsts, laters []time.Duration
	for range runs {
		init, took, err := once(binary, endpoint, ev, 1+requests)
		if err != nil {
			return measured{}, err
		}
		inits = append(inits, init)
		if len(took) > 0 {
			firsts, laters = append(firsts, took[0]), append(laters, took[1:]...)
		}
	}
	return measured{init: median(inits), first: median(firsts), later: median(laters)}, nil
}

// once starts a process and tells how long it and each request took.
func once(binary, endpoint string, ev events.APIGatewayV2HTTPRequest, requests int) (init time.Duration, took []time.Duration, err error) {
	ctx := context.Background()
	start := time.Now()
	i, err := lambdatest.Run(binary,
		"AUTH_MODE=none", "AWS_ENDPOINT_URL_DYNAMODB="+endpoint, "EXPORT_FILE_DAYS=1", "EXPORT_JOBS_BUCKET=bucket",
		"COUNTERS_TABLE=counters", "ENTITIES_TABLE=entities", "EVENTS_TABLE=events", "EXPORT_JOBS_TABLE=jobs")
	if err != nil {
		return 0, nil, err
	}
	defer i.Stop()
	if err := i.Ready(ctx); err != nil {
		return 0, nil, err
	}
	init = time.Since(start)
	if ev.RequestContext.HTTP.Method == "" {
		return init, nil, nil // it takes other events
	}
	for range requests {
		start := time.Now()
		resp, err := i.Invoke(ctx, ev)
		if err != nil {
			return 0, nil, err
		}
		if resp.StatusCode >= http.StatusInternalServerError {
			return 0, nil, fmt.Errorf("%d %s", resp.StatusCode, resp.Body)
		}
		took = append(took, time.Since(start))
	}
	return init, took, nil
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.SortFunc(d, cmp.Compare)
	return d[len(d)/2]
}

// serve starts the stand-in for DynamoDB: tables that are empty whatever is
// written. It ends with the program.
func serve(accept, answer time.Duration) (endpoint string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
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
	go server.Serve(slowListener{listener, accept}) //nolint:errcheck // it ends with the program
	return "http://" + listener.Addr().String(), nil
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
