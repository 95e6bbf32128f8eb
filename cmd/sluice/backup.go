package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/localserver"
	"sluice/pkg/bolt"
)

func backupCommand(getenv func(string) string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the data directory of sluice serve",
		Long: `Write a backup of a data directory into a new file: records, API keys, limits, indexes,
jobs and export files, all as they were at one moment. A server may be using the directory,
and goes on serving. The backup is verified before the file gets its name.

"sluice restore" creates a data directory from it. "sluice serve --backup-dir" makes
backups regularly. With --dynamodb, DynamoDB makes the backups.`,
		Example: `  sluice backup /backups/monday.zip
  sluice backup monday.zip --data-dir /var/lib/sluice`,
		Args: oneArg("the name of the file to create"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := bolt.WriteBackup(args[0], func(w io.Writer) error { return localserver.Backup(cmd.Context(), dir, w) })
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is complete and verified (%s).\n", args[0], megabytes(size))
			}
			return err
		},
	}
	dataDirFlag(cmd, getenv, &dir)
	return cmd
}

func restoreCommand(getenv func(string) string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create a data directory from a backup",
		Long: `Create a data directory from a backup. The directory must be new or empty. Everything in it
is checked, as by "sluice check".

A server that starts with the directory has a new id. Copies made with "sluice sync" or
"sluice copy", and journals of imports, notice that, because records that they know of may be
missing. Export jobs that had not ended start over.`,
		Example: `  sluice restore /backups/monday.zip --data-dir /var/lib/sluice-restored
  sluice serve --data-dir /var/lib/sluice-restored`,
		Args: oneArg("the file of the backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := bolt.Restore(cmd.Context(), args[0], dir)
			if err != nil {
				return err
			}
			if len(r.Problems) > 0 {
				return fmt.Errorf("%s has %s, but was damaged when the backup was made:\n  %s", dir, summary(r), strings.Join(r.Problems, "\n  "))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s has %s, all checked. Start it with: sluice serve --data-dir %[1]s\n", dir, summary(r))
			return nil
		},
	}
	dataDirFlag(cmd, getenv, &dir)
	return cmd
}

func dataDirFlag(cmd *cobra.Command, getenv func(string) string, dir *string) {
	cmd.Flags().StringVar(dir, "data-dir", cmp.Or(getenv("DATA_DIR"), defaultDataDir), "data directory of sluice serve (env DATA_DIR)")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		*dir, err = filepath.Abs(*dir)
		return err
	}
}

func summary(r *bolt.Report) string {
	return fmt.Sprintf("%d entities, %d events, %d tombstones, %d jobs and %d API keys in %s", r.Entities, r.Events, r.Tombstones, r.Jobs, r.Keys, megabytes(r.Bytes))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
