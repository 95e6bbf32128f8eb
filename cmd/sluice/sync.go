package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/changes"
	"sluice/internal/progress"
	"sluice/internal/syncer"
	api "sluice/pkg/client"
)

const syncHelp = `Keep a copy of all entities or events up to date in a file.

The first run copies everything; each further run reads only what has changed since
the last one, and removes the entities that were deleted. FILE is NDJSON, with each
record once, in order of id. It is replaced as a whole when a run is complete, so at
any time it is the copy of one moment, which the run prints: a few seconds before the
run began.

A run that was stopped or killed continues when the same command is run again. For
that it keeps files beside the copy whose names begin with FILE.sluice-sync;
FILE.sluice-sync itself stays and must be kept with the copy. A FILE that sync did not
write, or that was changed, is not replaced; --force replaces it by a new copy.

The service tells for 30 days what was deleted. If the last run is longer ago, or FILE
is gone, a run copies everything again. "sync events" also reads the changes of
entities, to remove the events of entities that were erased. Every record and change
that is read counts towards the limits.

The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp

func syncCommand(getenv func(string) string) *cobra.Command {
	var (
		o      syncer.Options
		c      = connection{getenv: getenv}
		rate   int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "sync {entities|events} FILE",
		Short: "Keep a copy up to date in a file",
		Long:  syncHelp,
		Example: `  sluice sync entities entities.ndjson
  sluice sync events events.ndjson --rate 100`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeNounAndFile,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Resource, err = parseResource("sync", args[0]); err != nil {
				return err
			}
			if rate < 1 && cmd.Flags().Changed("rate") {
				return usageError("--rate must be at least 1")
			}
			o.Path, o.URL, o.Waiting = args[1], c.baseURL(), c.waiting
			if lower := strings.ToLower(o.Path); lower == "-" || strings.HasSuffix(lower, ".gz") || strings.HasSuffix(lower, ".csv") {
				return usageError("a copy is an NDJSON file, not %q", o.Path)
			}
			o.PageSize = changes.PageSize
			if rate > 0 {
				o.PageSize = min(o.PageSize, rate)
			}
			client, err := c.patientClient(api.Config{Rate: rate / o.PageSize})
			if err != nil {
				return err
			}
			r, err := syncer.Run(cmd.Context(), o, client, cmd.ErrOrStderr())
			if refused := new(syncer.RefusedError); errors.As(err, &refused) {
				return usageError("%w", err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s in %s as of %s; %s since the last run.\n", nouns[r.Resource].Count(r.Records), r.File, r.SyncedUntil, progress.Noun{One: "change", Many: "changes"}.Count(r.Changes))
			return nil
		},
	}
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&o.Force, "force", false, "begin a new copy, and replace FILE whatever it is")
	cmd.Flags().IntVar(&rate, "rate", 0, "maximum records a second (default as many as the limits allow)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
