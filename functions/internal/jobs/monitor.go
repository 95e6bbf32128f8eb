package jobs

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/pkg/dynamo"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/metric"
	"sluice/pkg/record"
)

// StartMonitor runs the function that measures the age of the oldest unfinished job. It reads
// the tables of all kinds, so it notices a job that has stopped for any reason, such as a
// failing worker or a stream that invokes no worker. It also creates the id of the service's data,
// so that no function that clients can reach may write it. StartMonitor does not return: if the
// function cannot be set up, it exits the process.
func StartMonitor(kinds ...job.Kind) {
	m := monitor{service: os.Getenv("SERVICE_NAME"), now: time.Now, logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))}
	clients, err := connect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	indexes, err := dynamo.NewIndexes(clients.DynamoDB, os.Getenv("ENTITIES_TABLE"))
	if err != nil {
		log.Fatal(err)
	}
	m.kinds = append(m.kinds, watched{"index", declarations{indexes}})
	for _, kind := range kinds {
		jobs, err := dynamo.OpenJobs(clients.DynamoDB, kind, os.Getenv)
		if err != nil {
			log.Fatal(err)
		}
		m.kinds = append(m.kinds, watched{kind.Name, jobs})
	}
	ids, err := dynamo.OpenService(clients.DynamoDB, os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(func(ctx context.Context) error {
		_, err := ids.Create(ctx)
		return errors.Join(err, m.handle(ctx))
	})
}

type monitor struct {
	kinds   []watched
	service string // dimension of the metric: the name of the stack
	now     func() time.Time
	logger  *slog.Logger
}

type watched struct {
	name string
	jobs interface {
		OldestUnfinished(ctx context.Context) (created record.Time, ok bool, err error)
	}
}

// declarations are the jobs of the indexes. A build may take hours, so what counts is how long an
// unfinished one has made no progress.
type declarations struct{ index.Store }

func (d declarations) OldestUnfinished(ctx context.Context) (changed record.Time, ok bool, err error) {
	all, err := d.List(ctx)
	for _, one := range all {
		if at := record.TimeOf(one.ChangedAt()); one.State != index.Ready && (!ok || at.Compare(changed) < 0) {
			changed, ok = at, true
		}
	}
	return changed, ok, err
}

// handle logs the age of each kind's oldest unfinished job, and the highest age as the metric
// OldestUnfinishedSeconds. If all jobs of a kind have ended, the age is 0. If a table cannot be
// read, handle logs nothing and returns the error.
func (m monitor) handle(ctx context.Context) error {
	now, oldest := m.now(), 0.0
	var ages []slog.Attr
	for _, k := range m.kinds {
		created, ok, err := k.jobs.OldestUnfinished(ctx)
		if err != nil {
			return err
		}
		age := 0.0
		if ok {
			age = max(0, now.Sub(created.Time()).Seconds()) // the clocks of instances may differ by milliseconds
		}
		ages = append(ages, slog.Float64(k.name+"_seconds", age))
		oldest = max(oldest, age)
	}
	ages = append(ages, metric.Attrs(m.service, now, []metric.Metric{metric.Seconds("OldestUnfinishedSeconds", oldest)})...)
	m.logger.LogAttrs(ctx, slog.LevelInfo, "jobs", ages...)
	return nil
}
