// Package erasureworker is the Lambda function that runs erasure jobs. It connects package
// worker to the tables and the stream of the deployment.
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
	// maxRate is the maximum number of events per second. It leaves half of the write
	// capacity of an index partition to new events. All events of an entity share one
	// partition of by_entity. With one shard, all events of a workspace share one partition
	// of the other indexes.
	maxRate = 500

	// margin is the time before the function's timeout at which a run stops, so that it can
	// finish a page and save its progress.
	margin = 30 * time.Second
)

// Function is the Lambda function.
type Function struct {
	worker *worker.Worker
}

// Start runs the function with the configuration in the environment variables. It never
// returns. If the configuration is invalid, it ends the process.
func Start() {
	f, err := New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.Handle)
}

// New returns a Function with the configuration in the environment variables EVENTS_TABLE,
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

// Handle runs the job of each stream record. If it returns an error, Lambda delivers the
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
