package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/eraser"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

func eraseCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	asJSON, deleteFiles := false, false
	cmd := &cobra.Command{
		Use:   "erase entity ID",
		Short: "Erase an entity and all its events",
		Long: `Erase an entity and all its events. The service deletes the entity at once. Then an
erasure job erases the events that were created before the deletion, and this
command waits for the job. Events that are created later stay. If the entity does not
exist, the command still erases its events.

If this command is stopped, the job continues in the service. If you run the same
command again, it also erases the events created in the meantime, and waits for the job.

Files of export jobs may hold the erased records until they expire. The command names
those made since the creation of the entity or of its first event, whichever is earlier,
and deletes them with --delete-files, or if you agree on a terminal. If there was no such
entity, it names all files, and --delete-files deletes none. Backups keep the erased
records too; see docs/erasure.md.

The key needs the scopes import and erase, and export to name and delete files.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice erase entity ada
  sluice erase entity ada --delete-files
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
			return erase(cmd, c, id, deleteFiles, asJSON)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the erasure job as JSON, with the files")
	cmd.Flags().BoolVar(&deleteFiles, "delete-files", false, "delete the export files that may hold what was erased")
	return cmd
}

func erase(cmd *cobra.Command, c *client.Client, id string, deleteFiles, asJSON bool) error {
	r, err := eraser.Run(cmd.Context(), c, id, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if asJSON {
		err = deleteLeft(cmd, c, r, deleteFiles)
		return errors.Join(printJSON(cmd.OutOrStdout(), r), err)
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "Erased the entity %s and %s.\n", id, noun(record.Event).Count(r.EventsErased)); err != nil {
		return err
	}
	return deleteLeft(cmd, c, r, deleteFiles)
}

// deleteLeft names the export files that may still hold what was erased, and deletes them if the
// user wants it.
func deleteLeft(cmd *cobra.Command, c *client.Client, r eraser.Result, wanted bool) error {
	stderr := cmd.ErrOrStderr()
	r.List(stderr)
	switch {
	case wanted && r.Files == nil:
		return errors.New("no file was deleted: the key needs the scope export")
	case len(r.Files) == 0:
		return nil
	case wanted && r.AnyTime:
		return errors.New("no file was deleted: they may hold nothing of the entity; delete those that do with POST /delete_export_job")
	case !wanted && (!progress.IsTerminal(os.Stdin) || !progress.IsTerminal(stderr) || !eraser.Ask(os.Stdin, stderr)):
		return nil
	}
	if err := r.Delete(cmd.Context(), c); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stderr, "The files are deleted. Copies that somebody has downloaded are out of reach.")
	return err
}
