package lambdatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Freeze stops the process as Lambda freezes an instance between invocations:
// after it has polled for its next event and until Invoke or Handle hands over
// that event. Freeze returns when every thread of the process has stopped. It
// needs Unix.
func (i *Instance) Freeze(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	result := make(chan error, 1)
	select {
	case i.freezes <- result:
		return <-result
	case <-i.exited:
		return fmt.Errorf("%w: %s", ErrExited, i.Log())
	case <-ctx.Done():
		return fmt.Errorf("the function does not poll for an event: %w: %s", ctx.Err(), i.Log())
	}
}

// stopProcess sends SIGSTOP to a process and waits until it has stopped.
func stopProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for SIGSTOP: %w", err)
		case !status.Stopped():
			return ErrExited
		default:
			return nil
		}
	}
}

// continueProcess undoes stopProcess.
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
