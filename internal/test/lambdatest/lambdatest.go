// Package lambdatest runs the function binaries as Lambda does: each instance is a process
// that polls its own Runtime API and serves one event at a time.
package lambdatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/child"
	"sluice/internal/test/secrettest"
)

// Timeout is the timeout that template.yaml sets for functions with routes.
const Timeout = 10 * time.Second

// Build returns the path of a function's binary. The first call in a process builds all
// functions with the flags of the deployment. All tests use the same paths, so a binary is
// linked again only if its code has changed.
func Build(t testing.TB, function string) string {
	t.Helper()
	dir := filepath.Join(child.ModuleRoot(t), "bin", "functions")
	built.Lock()
	defer built.Unlock()
	if !built.all { // a failed build is retried, because it leaves the old binaries in place
		Compile(t, child.ModuleRoot(t), "sluice/functions/...", runtime.GOARCH, dir+"/")
		built.all = true
	}
	return filepath.Join(dir, function)
}

var built struct {
	sync.Mutex
	all bool
}

// Compile builds packages for a GOARCH with the flags of the deployment. path is the binary to
// write, or a directory if it ends in a slash. dir is a directory of the module.
func Compile(t testing.TB, dir, packages, goarch, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "lambda.norpc,nethttpomithttp2", "-trimpath", "-ldflags", "-s -w", "-o", path, packages)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", packages, err, out)
	}
}

type Instance struct {
	*child.Process
	mu      sync.Mutex // held while an event is processed
	events  chan invocation
	results chan result
	freezes chan chan error // requests from Freeze; each is a channel for the result
	polled  chan struct{}   // closed when the process first asks for an event
	api     *httptest.Server
}

type invocation struct {
	payload []byte
	timeout time.Duration
}

type result struct {
	body   []byte
	failed bool // the function reported an error instead of a response
}

// Start is like Run, but when the test ends, it stops the instance and checks its log for secrets.
func Start(t testing.TB, binary string, env ...string) *Instance {
	t.Helper()
	i, err := Run(binary, env...)
	if err != nil {
		t.Fatalf("start %s: %v", binary, err)
	}
	t.Cleanup(func() {
		i.Stop()
		secrettest.Check(t, filepath.Base(binary), i.Log())
	})
	return i
}

// Run starts a binary. Its environment contains the variables in env ("NAME=value"), those of
// the Runtime API, and fake credentials.
func Run(binary string, env ...string) (*Instance, error) {
	i := &Instance{events: make(chan invocation), results: make(chan result), freezes: make(chan chan error), polled: make(chan struct{})}
	i.api = httptest.NewServer(i.runtimeAPI())
	cmd := exec.Command(binary)
	cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(i.api.URL, "http://"),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}, env...)
	var err error
	if i.Process, err = child.Start(cmd); err != nil {
		i.api.Close()
		return nil, err
	}
	return i, nil
}

func (i *Instance) Stop() {
	i.Kill()
	i.api.CloseClientConnections()
	i.api.Close()
}

// runtimeAPI is the part of the Lambda Runtime API (version 2018-06-01) that a function uses.
func (i *Instance) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	var invocations int // needs no lock, because the process asks for one event at a time
	var first sync.Once
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		first.Do(func() { close(i.polled) })
		frozen := false
		for {
			select {
			case result := <-i.freezes:
				var err error
				if !frozen {
					err = i.suspend()
					frozen = err == nil
				}
				result <- err
			case ev := <-i.events:
				if frozen {
					i.Signal(syscall.SIGCONT) //nolint:errcheck // the process may have been killed
				}
				invocations++
				w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(invocations))
				w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(ev.timeout).UnixMilli(), 10))
				w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:test")
				w.Write(ev.payload) //nolint:errcheck // the process may have been killed
				return
			case <-r.Context().Done():
				return
			}
		}
	})
	take := func(failed bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				body, failed = []byte(err.Error()), true
			}
			w.WriteHeader(http.StatusAccepted)
			select {
			case i.results <- result{body: body, failed: failed}:
			case <-r.Context().Done():
			}
		}
	}
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", take(false))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", take(true))
	return mux
}

var ErrFailed = errors.New("the function failed")

// Ready waits until init is complete and the process polls for its first event. It fails with
// child.ErrExited if the process exits, and with another error if init exceeds Timeout.
func (i *Instance) Ready(ctx context.Context) error {
	return i.Process.Ready(ctx, Timeout, func(ctx context.Context) error {
		select {
		case <-i.polled:
			return nil
		case <-i.Exited():
		case <-ctx.Done():
		}
		return errors.New("the function does not poll for an event")
	})
}

// Invoke sends a request event. Concurrent calls run one after another. It fails like Handle.
func (i *Instance) Invoke(ctx context.Context, ev events.APIGatewayV2HTTPRequest) (resp events.APIGatewayV2HTTPResponse, err error) {
	body, err := i.Handle(ctx, ev, Timeout)
	if err != nil {
		return resp, err
	}
	return resp, json.Unmarshal(body, &resp)
}

// Handle sends an event. It fails with ErrFailed if the function reports an error, with
// child.ErrExited if the process exits, and with another error if the function takes longer
// than timeout.
func (i *Instance) Handle(ctx context.Context, ev any, timeout time.Duration) (response []byte, err error) {
	payload, err := json.Marshal(ev)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case i.events <- invocation{payload: payload, timeout: timeout}:
	case <-i.Exited():
		return nil, fmt.Errorf("%w: %s", child.ErrExited, i.Log())
	case <-ctx.Done():
		return nil, fmt.Errorf("the function does not ask for an event: %w: %s", ctx.Err(), i.Log())
	}
	select {
	case a := <-i.results:
		if a.failed {
			return nil, fmt.Errorf("%w: %s", ErrFailed, a.body)
		}
		return a.body, nil
	case <-i.Exited():
		return nil, fmt.Errorf("%w: %s", child.ErrExited, i.Log())
	case <-ctx.Done():
		return nil, fmt.Errorf("the function does not respond: %w: %s", ctx.Err(), i.Log())
	}
}

// Sample returns a function's sample event, which is for `sam local invoke`.
func Sample(t testing.TB, function string) (ev events.APIGatewayV2HTTPRequest) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(child.ModuleRoot(t), "events", function+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

// Event returns the event that API Gateway would send for a request. target is the path and
// the query. body, if there is one, is JSON.
func Event(method, target, sourceIP, body string) events.APIGatewayV2HTTPRequest {
	path, query, _ := strings.Cut(target, "?")
	ev := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RawPath: path, RawQueryString: query, Body: body,
		Headers: map[string]string{"host": "api.example.com"},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			Stage: "$default", RequestID: "request-id", DomainName: "api.example.com",
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: method, Path: path, Protocol: "HTTP/1.1", SourceIP: sourceIP},
		},
	}
	if body != "" {
		ev.Headers["content-type"] = "application/json"
	}
	return ev
}
