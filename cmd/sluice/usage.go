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

	identities string
	sort       string

	allKeys bool
	month   string
}

func usageCommand(getenv func(string) string) *cobra.Command {
	o := usageOptions{connection: connection{getenv: getenv}}
	counters, keys := newUsageStorage(getenv), keysBeside()
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Watch how much of its limits an address or API key uses",
		Long: `Watch how much of its limits an address or API key uses. Each rule has one bar for each
of the last 60 seconds. A bar has its full height if the limit was reached in that
second. The command sends one request per second to the route usage. Ctrl-C ends it.

If the output is not a terminal, or with --once, the command shows the usage once and
ends. With --json it prints the service's responses, one per line.

The key needs the scope dashboard, and with --of or --identities the scope operator too.

With --identities, the command prints once who is nearest to a limit: in the last minute
all addresses and API keys, with the requests that were refused, or in this UTC day or
month the keys that have limits of their own. On AWS, there is no list of a minute.

With --all-keys, the command prints what each API key has used in a UTC month, as CSV or
with --json as JSON, and ends. It asks no service, but reads the counters and the keys: in
the data directory of "sluice serve", which saves them every 5 seconds, or in the DynamoDB
tables of --table and --keys-table, whose names are outputs of the stack. The counters of
13 months are kept.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice usage
  sluice usage --of 192.0.2.1 | tail -n +3
  sluice usage --of key:7m3kq2xw9abc
  sluice usage --identities minute --sort refused
  sluice usage --identities month
  sluice usage --json | jq '.seconds[-2].imports'
  sluice usage --all-keys --month 2026-11 > invoices.csv
  sluice usage --all-keys --table sluice-CountersTable-1ABCDEF --keys-table sluice-KeysTable-1ABCDEF`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUsage(cmd, o, counters, keys) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.of, "of", "", "address, or key:ID, to watch (default: what counts the requests of this machine)")
	cmd.Flags().BoolVar(&o.once, "once", false, "show the usage once and end, also on a terminal")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the service's responses as JSON")
	cmd.Flags().BoolVar(&o.allKeys, "all-keys", false, "print the usage of all API keys in a month")
	cmd.Flags().StringVar(&o.month, "month", "", "the month, in UTC, such as 2026-11 (default: the current one)")
	cmd.Flags().StringVar(&o.identities, "identities", "", "print who has used the most: minute (the last), day or month")
	cmd.Flags().StringVar(&o.sort, "sort", "", "what comes first if it is highest: share (of a limit, the default), records, imports or, of a minute, requests or refused")
	counters.addFlags(cmd.Flags())
	keys.addFlag(cmd, getenv, "API keys")
	return cmd
}

func runUsage(cmd *cobra.Command, o usageOptions, counters *usageStorage, keys *keysReader) error {
	if err := requireValues(cmd, "of", "month", "identities", "sort"); err != nil {
		return err
	}
	if o.of != "" && o.identities != "" || o.allKeys && o.of+o.identities != "" {
		return usageError("--of, --identities and --all-keys exclude each other")
	}
	if o.allKeys {
		counters.json = o.json
		return printMonth(cmd, counters, keys, o.month, time.Now())
	}
	if o.month != "" {
		return usageError("--month needs --all-keys")
	}
	if o.identities != "" {
		return printIdentities(cmd, o)
	}
	if o.sort != "" {
		return usageError("--sort needs --identities")
	}
	return watchUsage(cmd.Context(), o, cmd.OutOrStdout())
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
