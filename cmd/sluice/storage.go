package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/localserver"
	"sluice/pkg/audit"
	"sluice/pkg/bolt"
)

// storage locates the data that a command manages: a file in the local server's data
// directory, or a DynamoDB table.
type storage[S any] struct {
	getenv    func(string) string
	what      string // plural noun for messages, such as "API keys"
	variable  string // environment variable with the table's name, such as KEYS_TABLE
	logicalID string // the table's ID in the template, such as KeysTable
	openDir   func(dir string) (S, error)
	openTable func(client *dynamodb.Client, name string) (S, error)

	trail beside[audit.Store] // where changes are recorded

	dataDir  string
	dynamodb string
	table    string
	json     bool
}

// beside is a second store that a command reads, in the place where the first one is.
type beside[S any] struct {
	flag      string // of the table's name
	variable  string
	openDir   func(dir string) (S, error)
	openTable func(client *dynamodb.Client, name string) (S, error)

	table string
}

func (b *beside[S]) addFlag(cmd *cobra.Command, getenv func(string) string, what string) {
	cmd.PersistentFlags().StringVar(&b.table, b.flag, getenv(b.variable), fmt.Sprintf("DynamoDB table of the %s, with --table (env %s)", what, b.variable))
}

// openBeside opens b where s was opened. known is false if that is a deployment and nothing names the
// table.
func openBeside[S, T any](cmd *cobra.Command, s *storage[S], b *beside[T]) (store T, known bool, err error) {
	ctx := cmd.Context()
	var client *dynamodb.Client
	table := b.table
	switch {
	case s.dynamodb != "":
		client, table, err = localserver.OpenTable(ctx, s.getenv, s.dynamodb, b.variable, b.table)
	case s.inTable(cmd):
		if b.table == "" {
			return store, false, nil
		}
		client, _, err = awsClient(ctx)
	default:
		store, err = b.openDir(s.dataDir)
		return store, true, err
	}
	if err != nil {
		return store, true, err
	}
	store, err = b.openTable(client, table)
	return store, true, err
}

func (s *storage[S]) inTable(cmd *cobra.Command) bool {
	return s.table != "" && !cmd.Flags().Changed("data-dir")
}

// command returns a command whose subcommands all have the flags that set fields of s.
func (s *storage[S]) command(use, short, long string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + s.help(), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	flags := cmd.PersistentFlags()
	flags.BoolVar(&s.json, "json", false, "print JSON")
	s.addFlags(flags)
	if s.trail = (beside[audit.Store]{flag: "audit-table", variable: auditVariable, openDir: openAuditDir, openTable: openAuditTable}); s.variable != auditVariable {
		s.trail.addFlag(cmd, s.getenv, "audit trail")
	}
	return cmd
}

// addFlags adds the flags that say where the data is.
func (s *storage[S]) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.table, "table", s.getenv(s.variable), fmt.Sprintf("DynamoDB table of the %s (env %s)", s.what, s.variable))
	flags.StringVar(&s.dynamodb, "dynamodb", "", "URL of a DynamoDB endpoint, such as DynamoDB Local")
	flags.StringVar(&s.dataDir, "data-dir", cmp.Or(s.getenv("DATA_DIR"), defaultDataDir), "data directory of sluice serve (env DATA_DIR)")
}

func (s *storage[S]) help() string {
	return fmt.Sprintf(`Where the %s are:

  %-32s in the DynamoDB table of that name, with the
                                   AWS configuration of this machine; the stack's
                                   output %sName is the name in a deployment
  with --dynamodb URL              in the table at that endpoint that "sluice
                                   serve --dynamodb URL" uses
  otherwise                        in the data directory of "sluice serve", which
                                   may be running

All instances apply a change within 60 seconds.`, s.what, "with --table, or "+s.variable, s.logicalID)
}

// openNew is like open, but creates the data directory if necessary. It refuses the default
// directory if no server has used it, because the server may be using a different one.
func (s *storage[S]) openNew(cmd *cobra.Command) (store S, where string, err error) {
	store, where, err = s.open(cmd)
	if err != nil || where != s.dataDir {
		return store, where, err
	}
	if named := cmd.Flags().Changed("data-dir") || s.getenv("DATA_DIR") != ""; !named && !bolt.HasData(s.dataDir) {
		return store, where, usageError("no server has used the data directory %s: use --data-dir to select it, or --table for the table of a deployment", where)
	}
	return store, where, bolt.CreateDir(s.dataDir)
}

// open also says where the data is, for use in messages.
func (s *storage[S]) open(cmd *cobra.Command) (store S, where string, err error) {
	inDir, ctx := cmd.Flags().Changed("data-dir"), cmd.Context()
	var client *dynamodb.Client
	table := s.table
	switch {
	case inDir && (s.dynamodb != "" || cmd.Flags().Changed("table")):
		return store, "", usageError("the %s are in a data directory or in DynamoDB: use --data-dir, or --dynamodb and --table", s.what)
	case s.dynamodb != "":
		if client, table, err = localserver.OpenTable(ctx, s.getenv, s.dynamodb, s.variable, s.table); err != nil {
			return store, "", err
		}
		where = fmt.Sprintf("the table %s at %s", table, s.dynamodb)
	case s.inTable(cmd):
		var region string
		if client, region, err = awsClient(ctx); err != nil {
			return store, "", err
		}
		where = fmt.Sprintf("the table %s in %s", table, region)
	default:
		if s.dataDir, err = filepath.Abs(s.dataDir); err != nil {
			return store, "", err
		}
		store, err = s.openDir(s.dataDir)
		return store, s.dataDir, err
	}
	store, err = s.openTable(client, table)
	return store, where, err
}

// awsClient uses this machine's default AWS configuration. It also returns the region.
func awsClient(ctx context.Context) (client *dynamodb.Client, region string, err error) {
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("load AWS configuration: %w", err)
	}
	if sdk.Region == "" {
		return nil, "", errors.New("no AWS region is set; set AWS_REGION to the region of the table, or AWS_PROFILE to a profile that has a region")
	}
	return dynamodb.NewFromConfig(sdk), sdk.Region, nil
}
