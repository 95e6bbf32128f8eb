package dynamolocal

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/child"
)

// startTimeout is how long an engine may take until it is ready. It takes two
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

// installation says where the engine's programs are.
type installation struct {
	java string
	dir  string // holds the jars and native libraries
}

// start runs an engine on a free port, with its tables in dir or, if that is
// empty, in memory.
func start(install installation, dir string) (e *Engine, err error) {
	reservation, err := child.OnFreePort(func(port int) error {
		e = &Engine{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), install: install, dir: dir, port: port}
		return e.run()
	})
	if err != nil {
		return nil, err
	}
	e.reservation = reservation
	return e, nil
}

// run starts the engine and waits until it lists its tables.
func (e *Engine) run() error {
	// On two cores, with an empty code cache, the quick compiler and the serial
	// collector start in two thirds of the time and serve as fast.
	storage := []string{"-inMemory"}
	if e.dir != "" {
		storage = []string{"-dbPath", e.dir}
	}
	p, err := child.StartTied(e.install.java, append([]string{
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

	client := e.Client(func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	err = p.Ready(context.Background(), startTimeout, func(ctx context.Context) error {
		_, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
		return err
	})
	if err != nil {
		e.Stop()
	}
	return err
}

// Stop ends the engine, if it runs, as a crash would: its connections break, and
// its tables are gone if it keeps them in memory. When Stop returns, nothing
// listens on its port.
func (e *Engine) Stop() {
	e.mu.Lock()
	p := e.process
	e.process = nil
	e.mu.Unlock()
	if p != nil {
		p.Kill()
	}
}

// close stops the engine and gives its port back.
func (e *Engine) close() {
	e.Stop()
	e.reservation.Close() //nolint:errcheck // nothing was sent
}

func (e *Engine) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process != nil
}

// Log returns what the running engine has printed.
func (e *Engine) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return ""
	}
	return e.process.Log()
}
