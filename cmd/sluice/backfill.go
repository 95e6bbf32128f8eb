package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/internal/localserver"
	"sluice/internal/progress"
	entitydynamo "sluice/pkg/entity/dynamostore"
	eventdynamo "sluice/pkg/event/dynamostore"
	"sluice/pkg/exportjob"
	"sluice/pkg/record/dynamorecord"
)

func backfillCommand(getenv func(string) string) *cobra.Command {
	var entities, events, endpoint string
	var shards int
	cmd := &cobra.Command{
		Use:   "backfill --entities TABLE --events TABLE --shards N",
		Short: "Add index keys to records that an earlier version wrote",
		Long: `Add the key attributes of the indexes by_updated_at and by_created_at to the records
that an earlier version wrote to a deployment's DynamoDB tables. Lists with updated_since
and created_since omit records without these keys.

Run this command after the deployment of this version is complete. The service can
stay in use. The command reads each table once and writes only records without the
keys. If it is interrupted, run it again. It is finished when it reports 0 records.
The data directory of "sluice serve" does not need this command.

The command uses the AWS configuration of this machine. The stack's outputs
EntitiesTableName and EventsTableName are the names of the tables.`,
		Example: `  sluice backfill --entities sluice-EntitiesTable-1ABC --events sluice-EventsTable-1ABC --shards 1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if entities == "" && events == "" {
				return usageError("name a table with --entities or --events")
			}
			n, err := dynamorecord.NewShards(shards)
			if err != nil {
				return usageError("--shards: %w", err)
			}
			client, err := backfillClient(cmd.Context(), getenv, endpoint)
			if err != nil {
				return err
			}
			return errors.Join(
				backfill(cmd, nouns[exportjob.Entity], entitydynamo.Backfill(client, entities, n)),
				backfill(cmd, nouns[exportjob.Event], eventdynamo.Backfill(client, events)),
			)
		},
	}
	cmd.Flags().StringVar(&entities, "entities", getenv("ENTITIES_TABLE"), "DynamoDB table of the entities (env ENTITIES_TABLE)")
	cmd.Flags().StringVar(&events, "events", getenv("EVENTS_TABLE"), "DynamoDB table of the events (env EVENTS_TABLE)")
	cmd.Flags().StringVar(&endpoint, "dynamodb", "", "URL of a DynamoDB endpoint, such as DynamoDB Local")
	cmd.Flags().IntVar(&shards, "shards", 1, "the stack's parameter EventShards")
	return cmd
}

// backfill runs b and prints how many records it updated. If b.Table is empty, backfill does
// nothing.
func backfill(cmd *cobra.Command, noun progress.Noun, b dynamorecord.Backfill) error {
	if b.Table == "" {
		return nil
	}
	updated, err := b.Run(cmd.Context(), func(updated int64) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s so far\n", noun.Count(updated))
	})
	if err != nil {
		return fmt.Errorf("updated %s of the table %s; run the same command again: %w", noun.Count(updated), b.Table, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Updated %s of the table %s.\n", noun.Count(updated), b.Table)
	return nil
}

// backfillClient returns a DynamoDB client. The parameter endpoint is the URL of the client's
// endpoint. If it is empty, the client uses DynamoDB in AWS.
func backfillClient(ctx context.Context, getenv func(string) string, endpoint string) (*dynamodb.Client, error) {
	if endpoint != "" {
		return localserver.DynamoDB(ctx, getenv, endpoint)
	}
	client, _, err := awsClient(ctx)
	return client, err
}
