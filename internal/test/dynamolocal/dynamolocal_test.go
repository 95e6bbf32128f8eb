package dynamolocal_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
)

// counterKey is a primary key of CountersTable.
var counterKey = map[string]types.AttributeValue{
	"pk": &types.AttributeValueMemberS{Value: "192.0.2.1"}, "second": &types.AttributeValueMemberN{Value: "1"},
}

// put writes an item to a counters table.
func put(t *testing.T, client *dynamodb.Client, name string) error {
	t.Helper()
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &name,
		Item:      counterKey,
	})
	return err
}

func TestTableIsFreshAndDeletedWithItsTest(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	var names []string
	t.Run("two tables", func(t *testing.T) {
		names = []string{dynamolocal.Table(t, "CountersTable"), dynamolocal.Table(t, "CountersTable")}
		if names[0] == names[1] {
			t.Fatalf("both are called %s", names[0])
		}
		if err := put(t, client, names[0]); err != nil {
			t.Fatal(err)
		}
		out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &names[1]})
		if err != nil || out.Count != 0 {
			t.Errorf("the other table holds %+v, %v", out, err)
		}
	})
	for _, name := range names {
		_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		if gone := new(types.ResourceNotFoundException); !errors.As(err, &gone) {
			t.Errorf("%s after its test: got %v, want none", name, err)
		}
	}
}

func TestEngineIsShared(t *testing.T) {
	t.Parallel()
	endpoint := dynamolocal.Endpoint(t)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if got := dynamolocal.Endpoint(t); got != endpoint {
				t.Errorf("got %s, want %s", got, endpoint)
			}
		})
	}
}

// The rate limiter depends on two properties of the engine. The engine applies conditional
// updates of an item one after the other, and it returns the item if a condition fails.
func TestConditionsAreAtomicAndReturnTheItem(t *testing.T) {
	t.Parallel()
	client, name := dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable")
	const limit, workers, each = 50, 8, 20

	var mu sync.Mutex
	passed, refused := 0, 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName:           &name,
					Key:                 counterKey,
					UpdateExpression:    aws.String("ADD used :one"),
					ConditionExpression: aws.String("attribute_not_exists(used) OR used < :limit"),
					ExpressionAttributeValues: map[string]types.AttributeValue{
						":one":   &types.AttributeValueMemberN{Value: "1"},
						":limit": &types.AttributeValueMemberN{Value: fmt.Sprint(limit)},
					},
					ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
				})
				full := new(types.ConditionalCheckFailedException)
				mu.Lock()
				switch {
				case err == nil:
					passed++
				case errors.As(err, &full):
					refused++
					if used, ok := full.Item["used"].(*types.AttributeValueMemberN); !ok || used.Value != fmt.Sprint(limit) {
						t.Errorf("a refusal shows %+v", full.Item)
					}
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if passed != limit || refused != workers*each-limit {
		t.Errorf("%d passed and %d were refused, want %d and %d", passed, refused, limit, workers*each-limit)
	}
}

func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	e := dynamolocal.Start(t)
	if e.Endpoint == dynamolocal.Endpoint(t) {
		t.Fatalf("%s is the shared engine's", e.Endpoint)
	}
	once := e.Client(func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	before := e.Table(t, "CountersTable")
	if err := put(t, once, before); err != nil {
		t.Fatal(err)
	}

	e.Stop()
	e.Stop() // stopping it again has no effect
	if err := put(t, once, before); err == nil {
		t.Error("a stopped engine responds")
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(e.Endpoint, "http://")); err == nil {
		conn.Close() //nolint:errcheck // unused
		t.Error("something listens on the port of a stopped engine")
	}

	e.Restart(t)
	gone := new(types.ResourceNotFoundException)
	if err := put(t, once, before); !errors.As(err, &gone) {
		t.Errorf("got %v, want an error: the table no longer exists", err)
	}
	if err := put(t, once, e.Table(t, "CountersTable")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(e.Log(), "InMemory:\ttrue") {
		t.Errorf("the log does not show the engine's start: %q", e.Log())
	}
}

// childVariable is an environment variable that is set in the child process of the test
// below, which the test kills.
const childVariable = "DYNAMOLOCAL_TEST_CHILD"

func TestEngineDiesWithAKilledTestProcess(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		fmt.Printf("endpoint %s\n", dynamolocal.Start(t).Endpoint)
		select {} // waits until the process is killed
	}
	t.Parallel()
	dynamolocal.Endpoint(t) // skips the test if the engine is missing

	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	process, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	address, err := process.ReadyText(t.Context(), `endpoint http://(\S+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the connection is only read

	process.Kill()
	// The engine sends nothing before a request, so the read ends only when the engine ends.
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the engine still holds its connection: %v", err)
	}
}

func TestMissingEngineSkipsButFailsInCI(t *testing.T) {
	for name, c := range map[string]struct{ ci, want string }{
		"laptop": {"", "--- SKIP"},
		"CI":     {"true", "--- FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestEngineIsShared$", "-test.v")
			cmd.Env = append(os.Environ(), "CI="+c.ci, "DYNAMODB_LOCAL="+t.TempDir())
			out, _ := cmd.CombinedOutput() // the output shows whether the test failed
			if !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "make dynamodb-local") {
				t.Errorf("got %s\nwant %s and the command that helps", out, c.want)
			}
		})
	}
}
