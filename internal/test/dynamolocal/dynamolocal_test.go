package dynamolocal_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
)

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

// childVariable is an environment variable. TestEngineDiesWithAKilledTestProcess sets it
// in the child process that it starts and kills.
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
	defer conn.Close() //nolint:errcheck // the test only reads from the connection

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
