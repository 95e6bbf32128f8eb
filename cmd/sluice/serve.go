package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"sluice/internal/localserver"
)

// defaultDataDir is the default data directory of serve.
const defaultDataDir = ".sluice"

func serveCommand(getenv func(string) string) *cobra.Command {
	var o localserver.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service on this machine",
		Long: `Run the service on this machine: the handlers of every route, without AWS and
without other programs. Records live in a file in the data directory and outlive
a restart; rate limit counters live in memory. With --dynamodb both live in
DynamoDB tables at that endpoint, such as DynamoDB Local; missing tables are
created. Export jobs run in this process, and their files are in the data
directory.

The limits are the deployment's and are set the same way: LIMIT_RECORDS,
LIMIT_IMPORTS and LIMIT_REQUESTS, each a second and 200 by default.

API keys are off: whoever reaches the address can read and write. With
AUTH_MODE=api-key they are required, as in a deployment; "sluice keys" creates
them.`,
		Example: `  sluice serve
  ADDR=127.0.0.1:8080 DATA_DIR=/var/lib/sluice sluice serve
  sluice serve --dynamodb http://127.0.0.1:8000
  AUTH_MODE=api-key sluice serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return localserver.Run(cmd.Context(), getenv, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", cmp.Or(getenv("ADDR"), "127.0.0.1:3000"), "address to listen on, as host:port (env ADDR)")
	cmd.Flags().StringVar(&o.DataDir, "data-dir", cmp.Or(getenv("DATA_DIR"), defaultDataDir), "directory for the records (env DATA_DIR)")
	cmd.Flags().StringVar(&o.DynamoDB, "dynamodb", "", "URL of a DynamoDB endpoint to use in place of the embedded store")
	cmd.Flags().BoolVarP(&o.Verbose, "verbose", "v", false, "log every request")
	return cmd
}
