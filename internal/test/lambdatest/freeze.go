package lambdatest

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"sluice/internal/test/child"
)

// Freeze suspends the process when it polls for its next event, as Lambda does between
// invocations, and returns when all threads have stopped. Invoke and Handle resume the
// process. Freeze needs Unix.
func (i *Instance) Freeze(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	result := make(chan error, 1)
	select {
	case i.freezes <- result:
		return <-result
	case <-i.Exited():
		return fmt.Errorf("%w: %s", child.ErrExited, i.Log())
	case <-ctx.Done():
		return fmt.Errorf("the function does not poll for an event: %w: %s", ctx.Err(), i.Log())
	}
}

// suspend sends SIGSTOP and waits until the process has stopped.
func (i *Instance) suspend() error {
	if err := i.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(i.PID(), &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for SIGSTOP: %w", err)
		case !status.Stopped():
			return child.ErrExited
		default:
			return nil
		}
	}
}
