// Package erasureworker connects the worker of erasure jobs to the tables and the stream
// of the deployment.
package erasureworker

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/functions/internal/bootstrap"
	jobdynamo "sluice/pkg/erasurejob/dynamostore"
	"sluice/pkg/erasurejob/worker"
	eventdynamo "sluice/pkg/event/dynamostore"
)

const (
	// maxRate leaves new events half of what a partition of an index takes: the events of
	// an entity share one, and with one shard those of a workspace.
	maxRate = 500

	// margin is how long before the end of its time a run stops, so that it can finish a
	// page and save.
	margin = 30 * time.Second
)

// Function is the worker as a function.
type Function struct {
	worker *worker.Worker
}

// Start runs the function that the environment variables describe. It ends the process
// if the function cannot be set up, and does not return otherwise.
func Start() {
	f, err := New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.Handle)
}

// New returns the Function that environment variables describe: EVENTS_TABLE,
// EVENT_SHARDS and ERASURE_JOBS_TABLE.
func New(ctx context.Context, getenv func(string) string) (*Function, error) {
	sdk, err := bootstrap.LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamodb.NewFromConfig(sdk)
	events, err := eventdynamo.Open(client, getenv)
	if err != nil {
		return nil, fmt.Errorf("EVENTS_TABLE: %w", err)
	}
	jobs, err := jobdynamo.Open(client, getenv)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(jobs, events, worker.Config{
		MaxRate: maxRate, Grace: margin, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
	})
	if err != nil {
		return nil, err
	}
	return &Function{worker: w}, nil
}

// Handle runs the job of each record of the stream. After an error, Lambda delivers the
// records again.
func (f *Function) Handle(ctx context.Context, ev lambdaevents.DynamoDBEvent) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	for _, r := range ev.Records {
		keys := r.Change.Keys
		if keys["workspace"].DataType() != lambdaevents.DataTypeString || keys["id"].DataType() != lambdaevents.DataTypeString {
			return fmt.Errorf("record %s is not of the erasure jobs' table", r.EventID)
		}
		if err := f.worker.Run(ctx, keys["workspace"].String(), keys["id"].String()); err != nil {
			return err
		}
	}
	return nil
}
