package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/localserver"
)

const defaultDataDir = ".sluice"

func serveCommand(getenv func(string) string) *cobra.Command {
	var o localserver.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service on this machine",
		Long: `Run the service on this machine, with all routes, without AWS and without other
programs. Records are in a file in the data directory and survive a restart. Rate
limit counters are in memory. With --dynamodb, records and counters are in DynamoDB
tables at that endpoint, for example DynamoDB Local; missing tables are created.
Export jobs run in this process, and their files are in the data directory.

The limits are those of a deployment, and the same variables set them: LIMIT_RECORDS,
LIMIT_IMPORTS and LIMIT_REQUESTS, per second, 200 by default.

API keys are off: anyone who can reach the address can read and write. With
AUTH_MODE=api-key, clients need an API key, as in a deployment; "sluice keys" creates
API keys.`,
		Example: `  sluice serve
  ADDR=127.0.0.1:8080 DATA_DIR=/var/lib/sluice sluice serve
  sluice serve --dynamodb http://127.0.0.1:8000
  AUTH_MODE=api-key sluice serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "backup-dir"); err != nil {
				return err
			}
			return localserver.Run(cmd.Context(), getenv, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", cmp.Or(getenv("ADDR"), "127.0.0.1:3000"), "address to listen on, as host:port (env ADDR)")
	cmd.Flags().StringVar(&o.DataDir, "data-dir", cmp.Or(getenv("DATA_DIR"), defaultDataDir), "directory for the records (env DATA_DIR)")
	cmd.Flags().StringVar(&o.DynamoDB, "dynamodb", "", "URL of a DynamoDB endpoint to use instead of the embedded store")
	cmd.Flags().StringVar(&o.Importer, "importer", "", "directory in which \"make importer\" builds the dashboard's importer (default: the one in this program)")
	cmd.Flags().StringVar(&o.Log, "log", "", "write a line to standard error for every request, as json or text (default: only for those with status 429 or 5xx, as text)")
	cmd.Flags().StringVar(&o.Backups.Dir, "backup-dir", "", "directory for backups, which the server makes regularly; \"sluice restore\" reads them")
	cmd.Flags().DurationVar(&o.Backups.Every, "backup-every", 24*time.Hour, "time between two backups in --backup-dir")
	cmd.Flags().IntVar(&o.Backups.Keep, "backup-keep", 7, "how many of its backups the server keeps in --backup-dir")
	cmd.Flags().StringVar(&o.Metrics, "metrics", "", "address for metrics of this process in the format of Prometheus, such as 127.0.0.1:9100; anyone who can reach it can read them")
	cmd.Flags().StringVar(&o.Pprof, "pprof", "", "loopback address for profiles of this process (net/http/pprof), such as 127.0.0.1:6060")
	return cmd
}
