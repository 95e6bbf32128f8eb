package dynamolocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// startTimeout is how long an engine may take until it answers. It takes two
// seconds, more where many start at once.
const startTimeout = 60 * time.Second

// script runs the engine, its arguments, until its standard input ends. The
// other end of that is a pipe that only the test process holds, so the engine
// ends with that process, however that ends.
const script = `
exec 3<&0
"$@" </dev/null 3<&- &
engine=$!
{ cat <&3; kill -9 "$engine"; } >/dev/null 2>&1 &
exec 3<&-
wait "$engine"
`

// Engine is one process of DynamoDB Local. Its methods may be called by several
// goroutines.
type Engine struct {
	Endpoint string // its URL, http://127.0.0.1:PORT, also while it is stopped

	install     installation
	dir         string // where it keeps its tables; "" for memory
	port        int
	reservation net.Listener // keeps other test processes from the port

	mu      sync.Mutex
	process *process // nil while stopped
}

// installation is where the engine's programs are.
type installation struct {
	sh, java string
	dir      string // holds the jars and native libraries
}

// find looks for the programs, once.
var find = sync.OnceValues(func() (installation, error) {
	var in installation
	var err error
	if in.sh, err = exec.LookPath("sh"); err != nil {
		return in, err
	}
	if in.java, err = exec.LookPath("java"); err != nil {
		return in, err
	}
	// Some systems have a java that only says where to get one.
	if out, err := exec.Command(in.java, "-version").CombinedOutput(); err != nil {
		return in, fmt.Errorf("java -version: %w: %s", err, bytes.TrimSpace(out))
	}
	if in.dir = os.Getenv("DYNAMODB_LOCAL"); in.dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return in, err
		}
		in.dir = filepath.Join(root, ".cache", "dynamodb-local")
	}
	if jars, _ := filepath.Glob(filepath.Join(in.dir, "DynamoDBLocal-*.jar")); len(jars) == 0 {
		return in, fmt.Errorf("no DynamoDBLocal-*.jar in %s", in.dir)
	}
	return in, nil
})

// moduleRoot is the directory of go.mod. Tests run in the directory of their
// package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}

// start runs an engine on a free port, with its tables in dir or, if that is
// empty, in memory.
func start(install installation, dir string) (*Engine, error) {
	var errs []error
	for range 5 {
		e, err := reserve(install)
		if err != nil {
			return nil, err
		}
		e.dir = dir
		if err = e.run(); err == nil {
			return e, nil
		}
		e.close()
		errs = append(errs, err)
		if !errors.Is(err, errExited) {
			break // it had its time
		}
		// Perhaps something else took the port meanwhile.
	}
	return nil, errors.Join(errs...)
}

// reserve makes an engine that does not run yet. Its port is below those that
// operating systems give to outgoing connections: one of these could take it
// while the engine starts or is stopped. The port above it stays open as long
// as the engine is in use, so that another test process that draws the same
// port draws again instead of talking to this engine.
func reserve(install installation) (*Engine, error) {
	const low, high, tries = 20000, 30000, 100
	var last error
	for range tries {
		port := low + 2*rand.IntN((high-low)/2)
		reservation, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) // every address, as the engine listens
		if err != nil {
			last = err
			reservation.Close()
			continue
		}
		probe.Close()
		return &Engine{
			Endpoint:    fmt.Sprintf("http://127.0.0.1:%d", port),
			install:     install,
			port:        port,
			reservation: reservation,
		}, nil
	}
	return nil, fmt.Errorf("no free port found: %w", last)
}

// process is a running engine.
type process struct {
	stdin  io.Closer
	log    tail
	exited chan struct{} // closed when it has ended
	err    error         // why it ended; read after exited
}

var errExited = errors.New("the engine ended")

// run starts the engine and waits until it answers.
func (e *Engine) run() error {
	// On two cores, with an empty code cache, the quick compiler and the serial
	// collector start in two thirds of the time and answer as fast.
	storage := []string{"-inMemory"}
	if e.dir != "" {
		storage = []string{"-dbPath", e.dir}
	}
	cmd := exec.Command(e.install.sh, append([]string{"-c", script, "dynamodb-local",
		e.install.java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dsqlite4java.library.path=" + e.install.dir,
		"-cp", filepath.Join(e.install.dir, "*"),
		"software.amazon.dynamodb.services.local.main.ServerRunner",
		"-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(e.port)}, storage...)...)
	p := &process{exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin = stdin
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	e.mu.Lock()
	e.process = p
	e.mu.Unlock()

	if err := e.answers(p); err != nil {
		e.Stop()
		return fmt.Errorf("%w; its last words:\n%s", err, p.log.String())
	}
	return nil
}

// answers waits until the engine lists its tables.
func (e *Engine) answers(p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := e.Client(func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: %w", errExited, p.err)
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", startTimeout, err)
		case <-again.C:
		}
	}
}

// Stop ends the engine, if it runs, as a crash would: its connections break,
// and its tables are gone if it keeps them in memory. When Stop returns, nothing listens on its port.
func (e *Engine) Stop() {
	e.mu.Lock()
	p := e.process
	e.process = nil
	e.mu.Unlock()
	if p != nil {
		p.stdin.Close()
		<-p.exited
	}
}

// close stops the engine and gives its port back.
func (e *Engine) close() {
	e.Stop()
	e.reservation.Close()
}

func (e *Engine) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process != nil
}

// Log is the end of what the running engine has printed.
func (e *Engine) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return ""
	}
	return e.process.log.String()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
