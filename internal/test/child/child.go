// Package child runs programs as child processes of tests: it finds them, starts
// them, waits until they are ready, and ends them.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// ErrExited says that a process has ended.
var ErrExited = errors.New("the process has exited")

// Process is a running program. Its methods may be called by several goroutines.
type Process struct {
	cmd    *exec.Cmd
	kill   func()
	log    lockedBuffer
	exited chan struct{} // closed when the program has ended
	err    error         // of cmd.Wait; may be read once exited is closed
}

// Start starts cmd and collects what it prints. If cmd.Stdout is set, that
// writer gets everything, too.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.kill = func() { cmd.Process.Kill() } //nolint:errcheck // it may have ended
	if cmd.Stdout == nil {
		cmd.Stdout = &p.log
	} else {
		cmd.Stdout = io.MultiWriter(&p.log, cmd.Stdout)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// tied runs a program, its arguments, until its standard input ends. The other
// end of that is a pipe that only the test process holds, so the program ends
// with that process, however that ends.
const tied = `
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ cat <&3; kill -9 "$program"; } >/dev/null 2>&1 &
exec 3<&-
wait "$program"
`

// StartTied starts a program that ends with the test process, even if that is
// killed. It needs sh, whose process PID returns.
func StartTied(program string, args ...string) (*Process, error) {
	cmd := exec.Command("sh", append([]string{"-c", tied, filepath.Base(program), program}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	p.kill = func() { stdin.Close() } //nolint:errcheck // it may have been closed
	return p, nil
}

// Ready waits until the program is ready, which it is when ready returns nil. It
// calls ready again and again until then. It fails with ErrExited if the program
// has ended, or after timeout.
func (p *Process) Ready(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: %s; it printed:\n%s", ErrExited, p.cmd.ProcessState, p.Log())
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w; it printed:\n%s", timeout, err, p.Log())
		case <-again.C:
		}
	}
}

// printTimeout is how long a program may take to print what a test waits for.
const printTimeout = time.Minute

// ReadyText waits as Ready does until the program has printed text that matches
// the pattern, and returns the submatch.
func (p *Process) ReadyText(ctx context.Context, pattern string) (submatch string, err error) {
	expression := regexp.MustCompile(pattern)
	err = p.Ready(ctx, printTimeout, func(context.Context) error {
		match := expression.FindStringSubmatch(p.Log())
		if match == nil {
			return fmt.Errorf("it has not printed %s", pattern)
		}
		submatch = match[1]
		return nil
	})
	return submatch, err
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Exited returns a channel that is closed when the program has ended and Log
// holds all that it printed.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits until the program has ended and returns the error of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// Kill ends the program as a crash would. When it returns, the program is gone.
func (p *Process) Kill() {
	p.kill()
	<-p.exited
}

// Log returns what the program has printed so far.
func (p *Process) Log() string { return p.log.String() }

// lockedBuffer is a bytes.Buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
