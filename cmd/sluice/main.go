// Command sluice is the service's command-line program. Its serve command runs
// the whole service on one machine, keys manages access keys, and the others are
// clients of a service.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := false
	root := &cobra.Command{
		Use:              "sluice",
		Short:            "A data API with exact rate limits",
		Long:             "A data API with exact rate limits: the service and its clients.\n\n" + exitCodesHelp,
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { began = true },
	}
	root.AddCommand(serveCommand(os.Getenv), keysCommand(os.Getenv), importCommand(os.Getenv), exportCommand(os.Getenv), limitsCommand(os.Getenv))
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(exitCode(err, began))
	}
}
