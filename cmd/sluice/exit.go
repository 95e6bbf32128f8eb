package main

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes of every command, as its help says.
const (
	exitFailure     = 1   // it failed, or not everything is done
	exitUsage       = 2   // the command line cannot be used; nothing was done
	exitRejected    = 3   // it is done, and some records were rejected
	exitInterrupted = 130 // it was interrupted
)

const exitCodesHelp = `Exit codes: 0 all is done, 1 it failed or is not finished, 2 the command line
cannot be used, 3 it is done but some records were rejected, 130 interrupted.`

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError says what is wrong with the command line.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode is the exit code for the error of a command. One that failed before
// it began has a command line that cannot be used.
func exitCode(err error, began bool) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	case !began:
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailure
}

// interrupted is err, or that the command was interrupted if it was.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
	return err
}
