// Package exportmonitor measures how long export jobs wait. It reads the table of jobs, so it
// works even if the worker has failed or the table's stream does not reach the worker.
package exportmonitor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dynamo"
	"sluice/pkg/record"
)

// Backlog is the store that a Monitor reads.
type Backlog interface {
	// OldestQueued returns the creation time of the oldest queued job. ok is false if
	// no job is queued.
	OldestQueued(ctx context.Context) (created record.Time, ok bool, err error)
}

// Monitor is the function that reports the age of the oldest queued job. It is safe
// for concurrent use.
type Monitor struct {
	Jobs    Backlog
	Service string           // dimension of the metric: the name of the stack
	Now     func() time.Time // the clock
	Logger  *slog.Logger     // writes JSON to the function's log
}

// New returns a Monitor that is configured by the environment variables
// EXPORT_JOBS_TABLE and SERVICE_NAME. It logs to w.
func New(ctx context.Context, getenv func(string) string, w io.Writer) (*Monitor, error) {
	sdk, err := bootstrap.LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := dynamo.NewExportJobs(dynamodb.NewFromConfig(sdk), getenv("EXPORT_JOBS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("EXPORT_JOBS_TABLE: %w", err)
	}
	return &Monitor{Jobs: jobs, Service: getenv("SERVICE_NAME"), Now: time.Now, Logger: slog.New(slog.NewJSONHandler(w, nil))}, nil
}

// Handle logs the metric OldestQueuedSeconds, which is the age of the oldest queued job in
// seconds, or 0 if no job is queued. The log line is in the CloudWatch embedded metric format,
// with the namespace Sluice and the dimension Service. If the table cannot be read, Handle
// logs no metric and returns the error.
//
// Source: CloudWatch User Guide, "Specification: Embedded metric format".
func (m *Monitor) Handle(ctx context.Context) error {
	created, queued, err := m.Jobs.OldestQueued(ctx)
	if err != nil {
		return err
	}
	now := m.Now()
	age := 0.0
	if queued {
		age = max(0, now.Sub(created.Time()).Seconds()) // the clocks of instances may differ by milliseconds
	}
	m.Logger.InfoContext(ctx, "export queue", "Service", m.Service, metric, age, slog.Group("_aws",
		"Timestamp", now.UnixMilli(),
		"CloudWatchMetrics", []any{map[string]any{
			"Namespace":  "Sluice",
			"Dimensions": [][]string{{"Service"}},
			"Metrics":    []any{map[string]string{"Name": metric, "Unit": "Seconds"}},
		}},
	))
	return nil
}

const metric = "OldestQueuedSeconds"
