package limiter

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const peerName = "rate-limiter-flexible"

// peer is a Node.js process that decides with rate-limiter-flexible.
type peer struct {
	requests *json.Encoder
	lines    *bufio.Reader
}

// startPeer returns nil if the peer is not installed.
func startPeer(b *testing.B) *peer {
	b.Helper()
	modules, err := filepath.Abs(filepath.Join(".cache", peerName, "node_modules"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		return nil
	}
	cmd := exec.Command("node", "bench/limiter/peer.js")
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "NODE_NO_WARNINGS=1") // the AWS SDK warns about old versions of Node.js
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close() //nolint:errcheck // the process ends
		cmd.Wait()    //nolint:errcheck // its exit status does not matter
	})
	return &peer{requests: json.NewEncoder(stdin), lines: bufio.NewReader(stdout)}
}

func (p *peer) prepare(b *testing.B, client *dynamodb.Client, clients int) decider {
	if p == nil {
		b.Skipf("%s is missing; run: make %[1]s", peerName)
	}
	return func(workers, n int) error {
		load := map[string]any{"endpoint": client.Options().BaseEndpoint, "clients": clients, "workers": workers, "decisions": n}
		if err := p.requests.Encode(load); err != nil {
			return err
		}
		_, err := p.lines.ReadString('\n')
		return err
	}
}
