// Package exportworker runs the worker of export jobs as a Lambda function.
package exportworker

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/functions/internal/bootstrap"
	"sluice/functions/internal/jobstream"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/exportjob/worker"
	"sluice/pkg/files"
)

const (
	// attempts is the maximum number of tries of an AWS call. It is high because the retry
	// of a failed run repeats much work.
	attempts = 8

	// settle is the minimum age that a job must have before a run reads records for it. An
	// index lags by a fraction of a second. So when the job has this age, the indexes contain
	// all records that were created before the job.
	settle = 2 * time.Second
)

// Start runs the function that the environment variables configure. It does not
// return. It exits the process if the function cannot be set up.
func Start() {
	w, err := New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(jobstream.Handler(w.Run))
}

// New returns a worker that is configured by the environment variables
// ENTITIES_TABLE, EVENTS_TABLE, EVENT_SHARDS, EXPORT_JOBS_TABLE, EXPORT_JOBS_BUCKET
// and EXPORT_FILE_DAYS. EXPORT_FILE_DAYS is the number of days for which files are kept.
func New(ctx context.Context, getenv func(string) string) (*worker.Worker, error) {
	sdk, err := bootstrap.LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	sdk.RetryMaxAttempts = attempts
	client := dynamodb.NewFromConfig(sdk)
	entities, err := dynamo.OpenEntities(client, getenv, entity.Clock{})
	if err != nil {
		return nil, err
	}
	events, err := dynamo.OpenEvents(client, getenv)
	if err != nil {
		return nil, err
	}
	jobs, err := dynamo.NewExportJobs(client, getenv("EXPORT_JOBS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("EXPORT_JOBS_TABLE: %w", err)
	}
	files, err := files.OpenS3(sdk, getenv)
	if err != nil {
		return nil, err
	}
	days, err := worker.ParseFileDays(getenv("EXPORT_FILE_DAYS"))
	if err != nil {
		return nil, err
	}
	return worker.New(jobs, entities, events, files, worker.Config{
		Grace: jobstream.Margin, Settle: settle, FileDays: days, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
	})
}
