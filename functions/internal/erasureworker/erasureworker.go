// Package erasureworker is the Lambda function that runs erasure jobs. It connects package
// worker to the tables and the stream of the deployment.
package erasureworker

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/functions/internal/bootstrap"
	"sluice/functions/internal/jobstream"
	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob/worker"
)

// MaxRate is the maximum number of events that a run erases per second.
// ParallelizationFactor in template.yaml is the number of concurrent runs. Together,
// these runs use at most half of an index partition's write capacity. The other half is
// left for new events.
//
// All events of an entity are in one partition of the index by_entity. In the other
// indexes, all events of a workspace are in one partition if they have one shard.
const MaxRate = 250

// Start runs the function with the configuration in the environment variables. It never
// returns. If the configuration is invalid, it ends the process.
func Start() {
	w, err := New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(jobstream.Handler(w.Run))
}

// New returns a worker with the configuration in the environment variables EVENTS_TABLE and
// ERASURE_JOBS_TABLE.
func New(ctx context.Context, getenv func(string) string) (*worker.Worker, error) {
	sdk, err := bootstrap.LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamodb.NewFromConfig(sdk)
	events, err := dynamo.OpenEvents(client, getenv)
	if err != nil {
		return nil, err
	}
	jobs, err := dynamo.OpenErasureJobs(client, getenv)
	if err != nil {
		return nil, err
	}
	return worker.New(jobs, events, worker.Config{
		MaxRate: MaxRate, Grace: jobstream.Margin, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
	})
}
