package dynamolocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/child"
)

// startTimeout is how long an engine may take until it answers. It takes two
// seconds, more where many start at once.
const startTimeout = 60 * time.Second

// Engine is one process of DynamoDB Local. Its methods may be called by several
// goroutines.
type Engine struct {
	Endpoint string // its URL, http://127.0.0.1:PORT, also while it is stopped

	install     installation
	dir         string // where it keeps its tables; "" for memory
	port        int
	reservation io.Closer // keeps other test processes from the port

	mu      sync.Mutex
	process *child.Process // nil while stopped
}

// installation is where the engine's programs are.
type installation struct {
	java string
	dir  string // holds the jars and native libraries
}

// find looks for the programs, once.
var find = sync.OnceValues(func() (installation, error) {
	var in installation
	var err error
	if in.java, err = exec.LookPath("java"); err != nil {
		return in, err
	}
	// Some systems have a java that only says where to get one.
	if out, err := exec.Command(in.java, "-version").CombinedOutput(); err != nil {
		return in, fmt.Errorf("java -version: %w: %s", err, bytes.TrimSpace(out))
	}
	if in.dir = os.Getenv("DYNAMODB_LOCAL"); in.dir == "" {
		root, err := child.ModuleRoot()
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

// reserve makes an engine that does not run yet.
func reserve(install installation) (*Engine, error) {
	port, reservation, err := child.Port()
	if err != nil {
		return nil, err
	}
	return &Engine{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), install: install, port: port, reservation: reservation}, nil
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
	p, err := child.Start(e.install.java, append([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dsqlite4java.library.path=" + e.install.dir,
		"-cp", filepath.Join(e.install.dir, "*"),
		"software.amazon.dynamodb.services.local.main.ServerRunner",
		"-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(e.port)}, storage...)...)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.process = p
	e.mu.Unlock()

	if err := e.answers(p); err != nil {
		e.Stop()
		return fmt.Errorf("%w; its last words:\n%s", err, p.Log())
	}
	return nil
}

// answers waits until the engine lists its tables.
func (e *Engine) answers(p *child.Process) error {
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
		case <-p.Exited():
			return fmt.Errorf("%w: %w", errExited, p.Err())
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
		p.Stop()
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
	return e.process.Log()
}
