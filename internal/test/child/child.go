// Package child runs programs as child processes of tests, waits until they are ready, and
// stops them.
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
	"strings"
	"sync"
	"time"
)

var ErrExited = errors.New("the process has exited")

// Process is safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	kill   func()
	log    lockedBuffer
	exited chan struct{} // closed when the program has exited
	err    error         // from cmd.Wait; valid after exited is closed
}

// Start copies standard output and standard error to Log, and to cmd.Stdout if that is set.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.kill = func() { cmd.Process.Kill() } //nolint:errcheck // the program may have exited
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

// tied is a shell script that runs the program in its arguments until its standard input is
// closed. Only the test process holds the other end of the pipe, so the program ends when the
// test process does, even if the test process is killed.
const tied = `
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ cat <&3; kill -9 "$program"; } >/dev/null 2>&1 &
exec 3<&-
wait "$program"
`

// StartTied starts a program that ends when the test process ends or is killed. It needs sh;
// PID returns the process id of sh.
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
	p.kill = func() { stdin.Close() } //nolint:errcheck // stdin may have been closed
	return p, nil
}

// Ready calls ready repeatedly until it returns nil. The error is ErrExited if the program
// exits first.
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

const printTimeout = time.Minute

// ReadyText waits until the program has printed a match for pattern, and returns the first
// submatch. It fails like Ready.
func (p *Process) ReadyText(ctx context.Context, pattern string) (submatch string, err error) {
	expression := regexp.MustCompile(pattern)
	err = p.Ready(ctx, printTimeout, func(context.Context) error {
		match := expression.FindStringSubmatch(p.Log())
		if match == nil {
			return fmt.Errorf("the program has not printed %s", pattern)
		}
		submatch = match[1]
		return nil
	})
	return submatch, err
}

func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Memory returns the value in bytes of a field of /proc/PID/status. For example, VmHWM is the
// program's peak memory. Memory needs Linux.
func (p *Process) Memory(field string) (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), field+":")
	var kilobytes int64
	if _, err := fmt.Sscanf(after, "%d kB", &kilobytes); err != nil {
		return 0, fmt.Errorf("read %s: %w", field, err)
	}
	return kilobytes << 10, nil
}

// Exited returns a channel that is closed when the program has exited and Log is complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits until the program has exited, and returns the error from exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// Kill kills the program and waits until it has exited.
func (p *Process) Kill() {
	p.kill()
	<-p.exited
}

func (p *Process) Log() string { return p.log.String() }

// lockedBuffer is safe for concurrent use.
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
