package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/cmd/sluice/internal/usageview"
	"sluice/pkg/client"
)

type usageOptions struct {
	connection
	of   string
	once bool
	json bool
}

func usageCommand(getenv func(string) string) *cobra.Command {
	o := usageOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Watch how much of its limits an address or API key uses",
		Long: `Watch how much of its limits an address or API key uses. Each rule has one bar for each
of the last 60 seconds. A bar has its full height if the limit was reached in that
second. The command sends one request per second to the route usage. Ctrl-C ends it.

If the output is not a terminal, or with --once, the command shows the usage once and
ends. With --json it prints the service's responses, one per line.

The key needs the scope dashboard, and with --of the scope operator too.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice usage
  sluice usage --of 192.0.2.1 | tail -n +3
  sluice usage --of key:7m3kq2xw9abc
  sluice usage --json | jq '.seconds[-2].imports'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "of"); err != nil {
				return err
			}
			return watchUsage(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.of, "of", "", "address, or key:ID, to watch (default: what counts the requests of this machine)")
	cmd.Flags().BoolVar(&o.once, "once", false, "show the usage once and end, also on a terminal")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the service's responses as JSON")
	return cmd
}

// watchUsage shows the usage every second until ctx is done, or only once.
func watchUsage(ctx context.Context, o usageOptions, stdout io.Writer) error {
	c, err := o.client(client.Config{})
	if err != nil {
		return err
	}
	once := o.once || !progress.IsTerminal(stdout)
	show := func(u client.Usage) error { return usageview.Bars(stdout, u) }
	switch {
	case o.json:
		show = func(u client.Usage) error { return json.NewEncoder(stdout).Encode(u) }
	case !once:
		var leave func()
		show, leave = usageview.Screen(stdout)
		defer leave()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		u, err := c.Usage(ctx, o.of)
		if err == nil {
			err = show(u)
		}
		if ctx.Err() != nil && !once {
			return nil // a signal is the usual way to stop, not an error
		}
		if err != nil || once {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
