package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/eraser"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

func eraseCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "erase entity ID",
		Short: "Erase an entity and all its events",
		Long: `Erase an entity and all its events. The service deletes the entity at once. Then an
erasure job erases the events that were created before the deletion, and this
command waits for the job. Events that are created later stay. If the entity does not
exist, the command still erases its events.

If this command is stopped, the job continues in the service. If you run the same
command again, it also erases the events created in the meantime, and waits for the job.

Files of export jobs and backups keep the erased records for some days; see
docs/erasure.md.

The key needs the scopes import and erase.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice erase entity ada
  sluice erase entity ada --json | jq .events_erased`,
		Args: func(_ *cobra.Command, args []string) error {
			return checkArgs(args, 2, "erase", "the word entity, and an id", "entity ada")
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"entity"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "entity" {
				return usageError("erase takes entity and an id, not %q", args[0])
			}
			id := args[1]
			if err := record.CheckID(id); err != nil {
				return usageError("the id %q %w", id, err)
			}
			c, err := o.patientClient(client.Config{}, false)
			if err != nil {
				return err
			}
			j, err := eraser.Run(cmd.Context(), c, id, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), j)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Erased the entity %s and %s.\n", id, noun(record.Event).Count(j.EventsErased))
			return err
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the erasure job as JSON")
	return cmd
}
