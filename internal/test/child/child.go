// Package child runs programs of others as servers for tests: on a port that no
// other test takes, and no longer than the test process lives.
package child

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// script runs a program, its arguments, until its standard input ends. The
// other end of that is a pipe that only the test process holds, so the program
// ends with that process, however that ends.
const script = `
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ cat <&3; kill -9 "$program"; } >/dev/null 2>&1 &
exec 3<&-
wait "$program"
`

// Process is a running program. Its methods may be called by several goroutines.
type Process struct {
	stdin  io.Closer
	log    tail
	exited chan struct{}
	err    error
}

// Start runs a program. It needs sh.
func Start(program string, args ...string) (*Process, error) {
	cmd := exec.Command("sh", append([]string{"-c", script, filepath.Base(program), program}, args...)...)
	p := &Process{exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err is why the program ended, once it has.
func (p *Process) Err() error { return p.err }

// Log is the end of what the program has printed.
func (p *Process) Log() string { return p.log.String() }

// Stop ends the program as a crash would. When it returns, the program is gone.
func (p *Process) Stop() {
	_ = p.stdin.Close() // it is enough that it is closed
	<-p.exited
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

// Port finds a free port. It is below those that operating systems give to
// outgoing connections: one of these could take it while the program starts or
// is stopped. The port above it stays open until the reservation is closed, so
// that another test process that draws the same port draws again instead of
// talking to this program.
func Port() (port int, reservation io.Closer, err error) {
	const low, high, tries = 20000, 30000, 100
	var last error
	for range tries {
		port := low + 2*rand.IntN((high-low)/2)
		reservation, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) // every address: some programs listen there
		if err != nil {
			last = err
			_ = reservation.Close()
			continue
		}
		_ = probe.Close()
		return port, reservation, nil
	}
	return 0, nil, fmt.Errorf("no free port found: %w", last)
}

// ModuleRoot is the directory of go.mod. Tests run in the directory of their
// package.
func ModuleRoot() (string, error) {
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
