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

// An engine usually starts within two seconds, but takes longer if many start at the same
// time.
const startTimeout = 60 * time.Second

// Engine is one process of DynamoDB Local. It is safe for concurrent use.
type Engine struct {
	Endpoint string // http://127.0.0.1:PORT; a restart does not change it

	install     installation
	dir         string // directory of the tables; "" to keep them in memory
	port        int
	reservation io.Closer // keeps other test processes from using the port

	mu      sync.Mutex
	process *child.Process // nil while stopped
}

type installation struct {
	java string
	dir  string // directory of the jars and native libraries
}

// start keeps tables in dir or, if that is empty, in memory.
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

// run starts the process and waits until it can list tables.
func (e *Engine) run() error {
	storage := []string{"-inMemory"}
	if e.dir != "" {
		storage = []string{"-dbPath", e.dir}
	}
	// With the C1 compiler and the serial collector, the engine starts in two thirds of the time
	// that it takes by default (two cores, cold code cache). Tests run just as fast.
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

// Stop kills the engine. Its connections break, and tables in memory are lost. When Stop
// returns, nothing listens on the port.
func (e *Engine) Stop() {
	e.mu.Lock()
	p := e.process
	e.process = nil
	e.mu.Unlock()
	if p != nil {
		p.Kill()
	}
}

func (e *Engine) close() {
	e.Stop()
	e.reservation.Close() //nolint:errcheck // nothing was written to the listener
}

func (e *Engine) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process != nil
}

func (e *Engine) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return ""
	}
	return e.process.Log()
}
