// Package jobs sets up the Lambda functions that run and watch background jobs.
package jobs

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

const (
	// margin is the time between the end of a run's context and the function's timeout, in which
	// the run finishes its current step and saves its checkpoint.
	margin = 30 * time.Second

	// attempts is how many times an AWS call is tried. It is high because a failed run repeats
	// much work.
	attempts = 8
)

// Start runs the jobs of one kind, which arrive on the stream of the kind's table. Jobs read
// indexes, so a job starts no earlier than record.SyncLag after it was requested. open opens the
// stores for the jobs. Start does not return: if the setup fails, it exits the process.
func Start(kind job.Kind, open func(bootstrap.Clients) (job.Work, error)) {
	clients, err := connect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := dynamo.OpenJobs(clients.DynamoDB, kind, os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	work, err := open(clients)
	if err != nil {
		log.Fatal(err)
	}
	w, err := job.NewWorker(kind, jobs, work, job.Config{Settle: record.SyncLag, Grace: margin, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler(w.Run))
}

func connect(ctx context.Context) (bootstrap.Clients, error) {
	sdk, err := bootstrap.LoadAWS(ctx)
	if err != nil {
		return bootstrap.Clients{}, err
	}
	sdk.RetryMaxAttempts = attempts
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	return bootstrap.Clients{
		AWS: sdk, DynamoDB: dynamodb.NewFromConfig(sdk),
		Clock: entity.Clock{Fault: httpapi.ClockFaults(logger, os.Getenv("SERVICE_NAME"))},
	}, nil
}

// handler calls run for the job in each record of a stream event, one at a time. After an
// error, Lambda delivers the records again.
func handler(run func(ctx context.Context, workspace, id string) error) func(context.Context, events.DynamoDBEvent) error {
	return func(ctx context.Context, ev events.DynamoDBEvent) error {
		ctx, cancel := beforeTimeout(ctx)
		defer cancel()
		for _, r := range ev.Records {
			keys := r.Change.Keys
			if keys["workspace"].DataType() != events.DataTypeString || keys["id"].DataType() != events.DataTypeString {
				return fmt.Errorf("record %s does not come from a jobs table", r.EventID)
			}
			if err := run(ctx, keys["workspace"].String(), keys["id"].String()); err != nil {
				return err
			}
		}
		return nil
	}
}
