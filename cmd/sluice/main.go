// Command sluice is the service's command-line program. "sluice serve" runs the whole service
// on one machine. "sluice keys" manages API keys, "sluice limits" sets the limits of individual
// addresses and keys, and "sluice indexes" chooses the attributes by which entities can be
// found. "sluice backup", "restore", "check" and "compact" look after a data directory. The other
// commands are clients of a service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/journal"
)

// version is the release. A build can change it with -ldflags "-X main.version=VERSION".
var version = "0.1.0"

// Exit codes of all commands, as documented in the help text.
const (
	exitFailure     = 1   // the command failed or did not complete
	exitUsage       = 2   // the command line is invalid, or does not match the files of an earlier run; no record or copy was changed
	exitRejected    = 3   // the command completed, but some records were rejected
	exitInterrupted = 130 // SIGINT or SIGTERM ended the command
)

// firstSteps is what the program prints if it is run without arguments.
const firstSteps = `sluice serve                            run the service on this machine
sluice import events orders.csv         store the records of a file; --dry-run only checks it
sluice export events -o events.ndjson   get them back
sluice usage                            what this address uses of its limits; more on ` + defaultURL + `/dashboard
sluice --help                           all commands; each has --help too
`

const exitCodesHelp = `Exit codes: 0 complete, 1 failed or not complete, 2 invalid command line or files of other
work, 3 complete but some records were rejected, 130 interrupted.`

func main() {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, interrupt := context.WithCancelCause(context.Background())
	context.AfterFunc(signaled, func() {
		stop() // another signal ends the process at once
		interrupt(errInterrupted)
	})
	began := false
	root := &cobra.Command{
		Use:              "sluice",
		Version:          version,
		Short:            "A data API with exact rate limits",
		Long:             "A data API with exact rate limits: the service and its clients.\n\n" + exitCodesHelp,
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { began = true },
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), firstSteps)
			return err
		},
	}
	root.AddCommand(serveCommand(os.Getenv), keysCommand(os.Getenv), importCommand(os.Getenv), exportCommand(os.Getenv), syncCommand(os.Getenv), copyCommand(os.Getenv), usageCommand(os.Getenv), limitsCommand(os.Getenv), plansCommand(os.Getenv), auditCommand(os.Getenv), eraseCommand(os.Getenv), indexesCommand(os.Getenv), findCommand(os.Getenv), backupCommand(os.Getenv), restoreCommand(os.Getenv), checkCommand(os.Getenv), compactCommand(os.Getenv))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	code := exitFailure
	switch e, refused := new(exitError), new(journal.RefusedError); {
	case ctx.Err() != nil:
		if code = exitInterrupted; !errors.Is(err, errInterrupted) {
			err = fmt.Errorf("%w: %w", errInterrupted, err)
		}
	case errors.As(err, &e):
		code = e.code
	case !began || errors.As(err, &refused):
		code = exitUsage
	}
	fmt.Fprintln(os.Stderr, "sluice:", err)
	os.Exit(code)
}

// errInterrupted is the context's cancellation cause after a signal.
var errInterrupted = errors.New("interrupted")

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// completeValues makes shell completion offer values for a flag.
func completeValues[T ~string](cmd *cobra.Command, flag string, values ...T) {
	var names []string
	for _, value := range values {
		names = append(names, string(value))
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the command has no such flag
	}
}

func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("give " + what)
		}
		return nil
	}
}

// requireValues returns an error if a flag is set to "", for example by an unset shell
// variable.
func requireValues(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usageError("--%s is empty; give it a value or leave it out", name)
		}
	}
	return nil
}
