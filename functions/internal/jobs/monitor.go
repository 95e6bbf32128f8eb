package jobs

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// StartMonitor runs the function that measures how long the jobs of a kind wait. It reads the
// table, so it works even if the worker has failed or the stream does not reach it. StartMonitor
// does not return; it exits the process if the function cannot be set up.
func StartMonitor(kind job.Kind) {
	_, jobs, err := connect(context.Background(), kind, os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	m := monitor{kind: kind, jobs: jobs, service: os.Getenv("SERVICE_NAME"), now: time.Now, logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))}
	lambda.Start(m.handle)
}

// monitor reports the age of the oldest queued job.
type monitor struct {
	kind job.Kind
	jobs interface {
		OldestQueued(ctx context.Context) (created record.Time, ok bool, err error)
	}
	service string // dimension of the metric: the name of the stack
	now     func() time.Time
	logger  *slog.Logger
}

// handle logs the metric OldestQueuedSeconds, 0 if no job is queued, in the CloudWatch embedded
// metric format. If the table cannot be read, it logs nothing and returns the error.
//
// Source: CloudWatch User Guide, "Specification: Embedded metric format".
func (m monitor) handle(ctx context.Context) error {
	const metric = "OldestQueuedSeconds"
	created, queued, err := m.jobs.OldestQueued(ctx)
	if err != nil {
		return err
	}
	now := m.now()
	age := 0.0
	if queued {
		age = max(0, now.Sub(created.Time()).Seconds()) // the clocks of instances may differ by milliseconds
	}
	m.logger.InfoContext(ctx, m.kind.Name+" queue", "Service", m.service, metric, age, slog.Group("_aws",
		"Timestamp", now.UnixMilli(),
		"CloudWatchMetrics", []any{map[string]any{
			"Namespace":  "Sluice",
			"Dimensions": [][]string{{"Service"}},
			"Metrics":    []any{map[string]string{"Name": metric, "Unit": "Seconds"}},
		}},
	))
	return nil
}
