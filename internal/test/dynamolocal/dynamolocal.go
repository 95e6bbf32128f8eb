// Package dynamolocal runs DynamoDB Local for tests, as a child process that ends with the
// test process.
//
// "make dynamodb-local" fetches the jars and native libraries into .cache/dynamodb-local. The
// environment variable DYNAMODB_LOCAL can name another directory. If the files or Java 17 are
// missing, tests that use the engine are skipped, or fail if the variable CI is set.
package dynamolocal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice"
	"sluice/internal/template"
	"sluice/internal/test/child"
)

// Region is the region of clients. The engine serves the same tables whatever the region and
// the credentials.
const Region = "us-east-1"

var shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Shared returns the engine that all tests of the process share. They must not stop or restart
// it.
func Shared(t testing.TB) *Engine {
	t.Helper()
	install := locate(t)
	shared.once.Do(func() { shared.engine, shared.err = start(install, "") })
	if shared.err != nil {
		t.Fatalf("start DynamoDB Local: %v", shared.err)
	}
	return shared.engine
}

func Endpoint(t testing.TB) string {
	t.Helper()
	return Shared(t).Endpoint
}

func Client(t testing.TB, options ...func(*dynamodb.Options)) *dynamodb.Client {
	t.Helper()
	return Shared(t).Client(options...)
}

// Table creates a table as defined in template.yaml and returns its unique name. The table
// lasts until the end of the test.
func Table(t testing.TB, logicalID string) string {
	t.Helper()
	return Shared(t).Table(t, logicalID)
}

// Start starts an engine for one test.
func Start(t testing.TB) *Engine {
	t.Helper()
	return startIn(t, "")
}

// StartDurable is like Start, but keeps tables in a file, so that they survive Restart.
func StartDurable(t testing.TB) *Engine {
	t.Helper()
	return startIn(t, t.TempDir())
}

func startIn(t testing.TB, dir string) *Engine {
	t.Helper()
	e, err := start(locate(t), dir)
	if err != nil {
		t.Fatalf("start DynamoDB Local: %v", err)
	}
	t.Cleanup(e.close)
	return e
}

// Restart keeps the Endpoint. It keeps the tables only if StartDurable started the engine.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	e.Stop()
	if err := e.run(); err != nil {
		t.Fatalf("restart DynamoDB Local: %v", err)
	}
}

// Client returns a client with the SDK's defaults, which options can change. The engine need
// not be running.
func (e *Engine) Client(options ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       Region,
		BaseEndpoint: aws.String(e.Endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
	}, options...)
}

// tables parses the template only once, because that takes a tenth of a second with the race detector.
var tables = sync.OnceValues(func() ([]template.Table, error) { return template.Parse(sluice.Template) })

// Table is like the function Table, but for this engine.
func (e *Engine) Table(t testing.TB, logicalID string) string {
	t.Helper()
	all, err := tables()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(t template.Table) bool { return t.LogicalID == logicalID })
	if i < 0 {
		t.Fatalf("the template has no table %q", logicalID)
	}
	client, name, table := e.Client(), logicalID+"-"+rand.Text(), all[i]
	table.TTL.Enabled = false // most tests use clocks in the past, so the engine would remove their items
	if err := template.CreateTable(t.Context(), client, table, name); err != nil {
		t.Fatalf("%v\n%s", err, e.Log())
	}
	t.Cleanup(func() {
		if !e.running() {
			return // the engine, and with it the table, is gone
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
		if gone := new(types.ResourceNotFoundException); err != nil && !errors.As(err, &gone) {
			t.Errorf("delete table %s: %v\n%s", name, err, e.Log())
		}
	})
	return name
}

// java returns the path of a working Java. It searches only once per process.
var java = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return "", err
	}
	// On some systems, java only prints how to install Java.
	if out, err := exec.Command(path, "-version").CombinedOutput(); err != nil {
		return "", fmt.Errorf("java -version: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
})

func locate(t testing.TB) installation {
	t.Helper()
	dir := os.Getenv("DYNAMODB_LOCAL")
	if dir == "" {
		dir = child.Cached(t, "dynamodb-local")
	}
	path, err := java()
	if jars, _ := filepath.Glob(filepath.Join(dir, "DynamoDBLocal-*.jar")); err == nil && len(jars) == 0 {
		err = fmt.Errorf("no DynamoDBLocal-*.jar in %s", dir)
	}
	child.Require(t, err, "Install Java 17 and Maven and run: make dynamodb-local")
	return installation{java: path, dir: dir}
}
