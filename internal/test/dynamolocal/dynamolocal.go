// Package dynamolocal gives tests a real DynamoDB engine: DynamoDB Local, run
// in memory as a process of its own that ends with the test process.
//
// "make dynamodb-local" fetches the engine; it needs Java 17. Where one of them
// is missing, tests that ask for the engine are skipped, but fail where the
// environment variable CI is set. The variable DYNAMODB_LOCAL names another
// directory with the engine's jars and native libraries than
// .cache/dynamodb-local in the module's root.
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
	"sluice/internal/test/child"
	"sluice/pkg/dynamotable"
	"sluice/pkg/template"
)

// Region is the AWS region of the clients. The engine holds the same tables for
// every region and every credential.
const Region = "us-east-1"

var shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Shared is the engine that all tests of the process share, started when the
// first of them asks. It cannot be stopped; it ends with the process.
func Shared(t testing.TB) *Engine {
	t.Helper()
	install := locate(t)
	shared.once.Do(func() { shared.engine, shared.err = start(install, "") })
	if shared.err != nil {
		t.Fatalf("start DynamoDB Local: %v", shared.err)
	}
	return shared.engine
}

// Endpoint is the URL of the shared engine.
func Endpoint(t testing.TB) string {
	t.Helper()
	return Shared(t).Endpoint
}

// Client is a client of the shared engine.
func Client(t testing.TB, options ...func(*dynamodb.Options)) *dynamodb.Client {
	t.Helper()
	return Shared(t).Client(options...)
}

// Table creates an empty table in the shared engine, like the one of the
// deployment template with the logical id, and gives its name, which no other
// table has. It is deleted when the test ends.
func Table(t testing.TB, logicalID string) string {
	t.Helper()
	return Shared(t).Table(t, logicalID)
}

// Start starts an engine that no other test sees. It is stopped when the test
// ends, if not before.
func Start(t testing.TB) *Engine {
	t.Helper()
	return startIn(t, "")
}

// StartDurable is Start for an engine that keeps its tables in a file, so that
// they are there again after Restart.
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

// Restart stops the engine, if it runs, and starts it on the same Endpoint. Its
// tables are gone, unless it is durable.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	e.Stop()
	if err := e.run(); err != nil {
		t.Fatalf("restart DynamoDB Local: %v", err)
	}
}

// Client is a client of the engine, which need not run. It has the defaults of
// the SDK, changed by options.
func (e *Engine) Client(options ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       Region,
		BaseEndpoint: aws.String(e.Endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
	}, options...)
}

// Table is like the function Table, in this engine.
func (e *Engine) Table(t testing.TB, logicalID string) string {
	t.Helper()
	tables, err := template.Parse(sluice.Template)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tables, func(t template.Table) bool { return t.LogicalID == logicalID })
	if i < 0 {
		t.Fatalf("the template has no table %q", logicalID)
	}
	client, name := e.Client(), logicalID+"-"+rand.Text()
	if err := dynamotable.Create(t.Context(), client, tables[i], name); err != nil {
		t.Fatalf("%v\n%s", err, e.Log())
	}
	t.Cleanup(func() {
		if !e.running() {
			return // and the table with it
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

// java finds a Java that runs, once.
var java = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return "", err
	}
	// Some systems have a java that only says where to get one.
	if out, err := exec.Command(path, "-version").CombinedOutput(); err != nil {
		return "", fmt.Errorf("java -version: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
})

// locate finds what it takes to run the engine, or skips or fails the test.
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
