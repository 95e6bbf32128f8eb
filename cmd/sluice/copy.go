package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/copier"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

type copyOptions struct {
	copier.Options
	from, to connection
	follow   bool
	json     bool
}

const copyHelp = `Copy the entities and events of one workspace to another, and keep them equal.

FROM and TO are the URLs of two services, or of one service with keys of two workspaces.
The first run copies everything. Each later run copies what has changed since then. With
--follow, the command copies changes every ten seconds (--every) until it is stopped. If
it is stopped or killed, run the same command again to continue. After a kill, the next
run first waits until TO can no longer carry out a request of the killed one.

Entities are replaced, and those that were deleted are deleted. If an entity was erased,
it is erased in TO, too. docs/move.md says what a copy does not keep. Nothing else may
write to TO. If TO has records when a copy begins, --force replaces its entities and
deletes those that FROM lacks.

The state file (--state) says what has been copied. FROM reports deletions for 30 days.
If the last run was more than 29 days ago, or if FROM's clock was set back, a run copies
everything again. The copy stays within the limits of both services, of which it leaves
a tenth (--share) to others at the same address.

--from-key or SLUICE_FROM_API_KEY sets the API key for FROM, which needs the scope
export. --to-key or SLUICE_TO_API_KEY sets the one for TO, which needs the scopes import
and export, and erase if an entity was erased. Other users of this machine can see a flag
in the process list, but not a variable.

` + exitCodesHelp

func copyCommand(getenv func(string) string) *cobra.Command {
	var o copyOptions
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Keep the records of a workspace equal to those of another",
		Long:  copyHelp,
		Example: `  sluice copy http://127.0.0.1:3000 https://api.example.com
  sluice copy http://127.0.0.1:3000 https://api.example.com --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			return checkArgs(args, 2, "copy", "two URLs", "http://127.0.0.1:3000 https://api.example.com")
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, url := range args {
				if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
					return usageError("copy needs URLs with http:// or https://, not %q", url)
				}
			}
			if !o.follow && cmd.Flags().Changed("every") {
				return usageError("--every needs --follow")
			}
			if o.Every < time.Second && cmd.Flags().Changed("every") {
				return usageError("--every must be at least 1s")
			}
			o.from.url, o.to.url = args[0], args[1]
			o.from.key = cmp.Or(o.from.key, getenv("SLUICE_FROM_API_KEY"))
			o.to.key = cmp.Or(o.to.key, getenv("SLUICE_TO_API_KEY"))
			return copyRecords(cmd, &o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *copyOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	for _, c := range []*connection{&o.from, &o.to} {
		c.stderr = cmd.ErrOrStderr()
		c.getenv = func(string) string { return "" } // a variable for one service must not reach two
	}
	flags.StringVar(&o.from.key, "from-key", "", "API key for FROM (env SLUICE_FROM_API_KEY)")
	flags.StringVar(&o.to.key, "to-key", "", "API key for TO (env SLUICE_TO_API_KEY)")
	o.from.addShare(cmd)
	o.to.share = o.from.share
	flags.StringVar(&o.State, "state", "sluice-copy.json", "file that says what has been copied")
	flags.BoolVar(&o.follow, "follow", false, "copy changes until the command is stopped")
	flags.DurationVar(&o.Every, "every", 10*time.Second, "pause between the rounds of --follow")
	flags.BoolVar(&o.Force, "force", false, "begin a new copy even if TO has records, which are then replaced or deleted")
	flags.BoolVar(&o.json, "json", false, "print the result of each round as JSON")
}

func copyRecords(cmd *cobra.Command, o *copyOptions) error {
	if !o.follow {
		o.Every = 0
	}
	from, err := o.from.patientClient(client.Config{}, true)
	if err != nil {
		return err
	}
	connect := func(cfg client.Config) (*client.Client, error) { return o.to.patientClient(cfg, true) }
	o.Waiting = func() string { return cmp.Or(o.from.waiting(), o.to.waiting()) }
	var differ int64
	var shown *record.Time
	o.Done = func(r copier.Result) {
		differ += int64(len(r.Differ))
		if shown != nil && *shown == r.SyncedUntil { // nothing has changed
			return
		}
		shown = &r.SyncedUntil
		err = o.print(cmd, r)
	}
	if failure := copier.Run(cmd.Context(), o.Options, from, connect, cmd.ErrOrStderr()); failure != nil {
		return failure
	}
	if err == nil && differ > 0 {
		err = &exitError{exitRejected, fmt.Errorf("%s, and no event can be changed", progress.Noun{One: "event differs", Many: "events differ"}.Count(differ))}
	}
	return err
}

func (o *copyOptions) print(cmd *cobra.Command, r copier.Result) error {
	if o.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	changed := progress.Noun{One: "change of entities", Many: "changes of entities"}
	erased := progress.Noun{One: "erasure", Many: "erasures"}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Equal up to %s: %s, %s and %s copied.\n", r.SyncedUntil, changed.Count(r.Entities), noun(record.Event).Count(r.Events), erased.Count(r.Erasures))
	if err == nil && r.Removed > 0 {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s that the source lacks deleted.\n", noun(record.Entity).Count(r.Removed))
	}
	for _, id := range r.Differ[:min(len(r.Differ), 10)] {
		fmt.Fprintf(cmd.ErrOrStderr(), "The destination has another event with the id %s.\n", id)
	}
	return err
}
