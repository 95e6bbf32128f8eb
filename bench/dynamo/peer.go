package dynamo

import (
	"bufio"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/child"
	"sluice/internal/dynamolocal"
)

const peerName = "rate-limiter-flexible"

//go:embed peer.js
var peerScript []byte

// startPeer starts the peer's program. "make rate-limiter-flexible" fetches it;
// it needs Node.js.
func startPeer(t *testing.T) contender {
	t.Helper()
	root, err := child.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	// Node.js looks for modules beside the script.
	dir := filepath.Join(root, ".cache", peerName)
	script := filepath.Join(dir, "peer.js")
	if err := os.WriteFile(script, peerScript, 0o600); err != nil {
		t.Fatalf("%v\nrun: make %s", err, peerName)
	}
	cmd := exec.CommandContext(t.Context(), "node", script, dynamolocal.Endpoint(t), peerTable(t))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "NODE_NO_WARNINGS=1") // of versions of Node.js that the AWS SDK will leave behind
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close() //nolint:errcheck // then it ends
		cmd.Wait()    //nolint:errcheck // all that it had to say has been read
	})
	answers := bufio.NewReader(stdout)
	return contender{name: peerName + ", two limiters", run: func(t *testing.T, l load) result {
		t.Helper()
		return ask(t, stdin, answers, l)
	}}
}

// ask has the peer take the load, and waits for what it says.
func ask(t *testing.T, stdin io.Writer, answers *bufio.Reader, l load) result {
	t.Helper()
	addresses := make([]string, l.keys)
	for n := range addresses {
		addresses[n] = address(n) + "#" + rand.Text()
	}
	err := json.NewEncoder(stdin).Encode(map[string]any{
		"addresses": addresses, "workers": l.workers, "decisions": l.decisions, "metered": l.metered,
	})
	if err != nil {
		t.Fatal(err)
	}
	line, err := answers.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s has ended: %v", peerName, err)
	}
	var answer struct {
		Took     []float64 // ms
		Together float64   // ms
		Calls    float64
		Units    float64
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	milliseconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	took := make([]time.Duration, len(answer.Took))
	for i, v := range answer.Took {
		took[i] = milliseconds(v)
	}
	r := timed(took, milliseconds(answer.Together))
	n := float64(l.decisions)
	r.calls, r.units = answer.Calls/n, answer.Units/n
	return r
}

// peerTable makes a table as the peer wants it. It ends with the engine.
func peerTable(t *testing.T) string {
	t.Helper()
	name := "peer-" + rand.Text()
	_, err := dynamolocal.Client(t).CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}
