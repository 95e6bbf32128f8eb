package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/progress"
	"sluice/internal/usageview"
	api "sluice/pkg/client"
)

// usageOptions are the flags of usage.
type usageOptions struct {
	connection
	address string
	once    bool
	json    bool
}

func usageCommand(getenv func(string) string) *cobra.Command {
	o := usageOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Watch what an address uses of its limits",
		Long: `Watch what an address uses of its limits: a bar for each of the last 60 seconds
and each rule. A bar of full height is a window that was full. It asks once a
second, which costs one request of the route usage; Ctrl-C ends it.

Output that is not a terminal gets a line for each second, two seconds later, and
with --json the service's responses, one a line.

The key needs the scope dashboard.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice usage
  sluice usage --address 192.0.2.1 --once
  sluice usage --json | jq '.seconds[-2].imports'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "address"); err != nil {
				return err
			}
			return watchUsage(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.address, "address", "", "address to watch (default this machine's, as the service sees it)")
	cmd.Flags().BoolVar(&o.once, "once", false, "show it once and end")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the service's responses as JSON")
	return cmd
}

// watchUsage shows the usage every second until ctx is done.
func watchUsage(ctx context.Context, o usageOptions, stdout io.Writer) error {
	client, err := o.client(api.Config{})
	if err != nil {
		return err
	}
	show := usageview.Lines(stdout)
	switch {
	case o.json:
		show = func(u api.Usage) error { return json.NewEncoder(stdout).Encode(u) }
	case o.once:
		show = func(u api.Usage) error { return usageview.Bars(stdout, u) }
	case progress.IsTerminal(stdout):
		var leave func()
		show, leave = usageview.Screen(stdout)
		defer leave()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		u, err := client.Usage(ctx, o.address)
		if err == nil {
			err = show(u)
		}
		if ctx.Err() != nil && !o.once {
			return nil // a signal is the normal end
		}
		if err != nil || o.once {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
