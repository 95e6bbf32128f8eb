package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/cmd/sluice/internal/syncer"
	"sluice/pkg/client"
)

type syncOptions struct {
	syncer.Options
	connection
	rate int
	json bool
}

const syncHelp = `Keep a file with a copy of all entities or events up to date.

The first run copies everything. Each later run reads only the changes since the last
run and removes deleted entities from the copy. FILE is NDJSON with each record once,
in order of id. At its end, a run replaces FILE and prints a time. The copy contains all
changes before that time, and what the run has read of later ones. If changes come faster
than a run reads them, it ends after five minutes, and the next run continues.

If a run is stopped or killed, run the same command again to continue it. To make this
possible, sync keeps files beside the copy. Their names begin with FILE.sluice-sync. The
file FILE.sluice-sync belongs to the copy and stays after the run. If sync did not
write FILE, or if another program has changed it, sync replaces it only with --force,
which starts a new copy.

The service reports deletions for 30 days. If the last run was more than 29 days ago,
if FILE does not exist, or if the service's clock was set back, a run copies everything
again. "sync events" also reads the changes of entities, to remove the events of erased
entities. Each record and change that sync reads counts towards the limits, of which
sync leaves a tenth (--share) to others at the same address.

The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp

func syncCommand(getenv func(string) string) *cobra.Command {
	o := syncOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "sync {entities|events} FILE",
		Short: "Keep a file with a copy of all records up to date",
		Long:  syncHelp,
		Example: `  sluice sync entities entities.ndjson
  sluice sync events events.ndjson --rate 100`,
		Args:              resourceAndFile("sync", "copy.ndjson"),
		ValidArgsFunction: completeNounAndFile,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Resource, err = parseResource("sync", args[0]); err != nil {
				return err
			}
			if o.rate < 1 && cmd.Flags().Changed("rate") {
				return usageError("--rate must be at least 1")
			}
			o.Path = args[1]
			if name := strings.ToLower(o.Path); name == "-" || strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".csv") {
				return usageError("the copy must be an NDJSON file, not %q", o.Path)
			}
			return syncCopy(cmd, &o)
		},
	}
	o.addFlags(cmd)
	o.addShare(cmd)
	cmd.Flags().BoolVar(&o.Force, "force", false, "start a new copy that replaces FILE, even if sync did not write FILE")
	cmd.Flags().IntVar(&o.rate, "rate", 0, "maximum records per second (default: as many as the limits allow)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

// pagesFor converts rate, in records per second, to pages per second and records per page. Their
// product is at most rate. Both are 0 if rate is 0, which lets the client choose.
func pagesFor(rate int) (pages, size int) {
	const largest = 50
	if rate == 0 {
		return 0, 0
	}
	pages = (rate-1)/largest + 1
	return pages, rate / pages
}

func syncCopy(cmd *cobra.Command, o *syncOptions) error {
	var pages int
	pages, o.PageSize = pagesFor(o.rate)
	c, err := o.patientClient(client.Config{Rate: pages}, true)
	if err != nil {
		return err
	}
	o.Waiting = o.waiting
	r, err := syncer.Run(cmd.Context(), o.Options, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	read := progress.Noun{One: "change", Many: "changes"}.Count(r.Changes)
	fmt.Fprintf(cmd.OutOrStdout(), "%s in %s, complete up to %s. %s in this run.\n", noun(r.Resource).Count(r.Records), r.File, r.SyncedUntil, read)
	return nil
}
