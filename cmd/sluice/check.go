package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/localserver"
	"sluice/pkg/bolt"
)

func checkCommand(getenv func(string) string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the data directory of sluice serve",
		Long: `Read everything in a data directory: each page of its files, each record, and whether the
indexes agree with the records. If a server is using the directory, a backup of it is checked;
this needs as much space beside the data directory as the backup takes.

If something is damaged, stop the server, and restore a backup into a new directory with
"sluice restore". The damaged directory is not changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := localserver.Check(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if len(r.Problems) > 0 {
				return fmt.Errorf("%s is damaged:\n  %s", filepath.Clean(dir), strings.Join(r.Problems, "\n  "))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is in order: %s.\n", dir, summary(r))
			return nil
		},
	}
	dataDirFlag(cmd, getenv, &dir)
	return cmd
}

func compactCommand(getenv func(string) string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Make the file with the records smaller",
		Long: `Rewrite the file with the records without the space that is free. The server must be
stopped. sluice.db never becomes smaller by itself: what is deleted leaves space for what is
written later. The new file takes the place of the old one only when it is complete and
verified, so there must be room for both.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := bolt.Compact(cmd.Context(), dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The file with the records had %s and has %s.\n", megabytes(c.Before), megabytes(c.After))
			if c.LostLast {
				fmt.Fprintln(cmd.ErrOrStderr(), "One of its first pages was damaged, so the last write may be missing.")
			}
			return nil
		},
	}
	dataDirFlag(cmd, getenv, &dir)
	return cmd
}
