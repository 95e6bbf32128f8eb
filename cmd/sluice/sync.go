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

// syncOptions are the flags of sync.
type syncOptions struct {
	syncer.Options
	connection
	rate int
	json bool
}

const syncHelp = `Keep a copy of all entities or events up to date in a file.

The first run copies everything; each further run reads only what has changed since
the last one, and removes the entities that were deleted. FILE is NDJSON, with each
record once, in order of id. It is replaced as a whole at the end of a run, which
prints up to when the copy is complete: a few seconds before the run began. A record
that changes while a run reads comes with the next one.

A run that was stopped or killed continues when the same command is run again. For
that it keeps files beside the copy whose names begin with FILE.sluice-sync;
FILE.sluice-sync itself stays, and belongs to the copy. A FILE that sync did not write,
or that was changed since, is replaced only with --force, which begins a new copy.

The service tells for 30 days what was deleted. If the last run is more than
29 days ago, or FILE is gone, a run copies everything again. "sync events" also
reads the changes of entities, to remove the events of entities that were erased.
Every record and change that is read counts towards the limits.

The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp

func syncCommand(getenv func(string) string) *cobra.Command {
	o := syncOptions{connection: connection{getenv: getenv}}
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
			if o.rate < 1 && cmd.Flags().Changed("rate") {
				return usageError("--rate must be at least 1")
			}
			o.Path = args[1]
			if name := strings.ToLower(o.Path); name == "-" || strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".csv") {
				return usageError("the copy is an NDJSON file, not %q", o.Path)
			}
			return syncCopy(cmd, &o)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.Force, "force", false, "begin a new copy, which replaces FILE whatever it is")
	cmd.Flags().IntVar(&o.rate, "rate", 0, "maximum records a second (default as many as the limits allow)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

// pagesFor returns how many pages a second, and of which size, do not exceed rate records a
// second. pages is 0, for no bound, if rate is 0.
func pagesFor(rate int) (pages, size int) {
	if rate == 0 {
		return 0, changes.PageSize
	}
	pages = (rate-1)/changes.PageSize + 1
	return pages, rate / pages
}

// syncCopy runs the command.
func syncCopy(cmd *cobra.Command, o *syncOptions) error {
	var pages int
	pages, o.PageSize = pagesFor(o.rate)
	c, err := o.patientClient(api.Config{Rate: pages})
	if err != nil {
		return err
	}
	o.URL, o.Waiting = o.baseURL(), o.waiting
	r, err := syncer.Run(cmd.Context(), o.Options, c, cmd.ErrOrStderr())
	if refused := new(syncer.RefusedError); errors.As(err, &refused) {
		return usageError("%w", err)
	}
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	read := progress.Noun{One: "change", Many: "changes"}.Count(r.Changes)
	fmt.Fprintf(cmd.OutOrStdout(), "%s in %s, complete up to %s. %s in this run.\n", nouns[r.Resource].Count(r.Records), r.File, r.SyncedUntil, read)
	return nil
}
