package functions_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/s3local"
	"sluice/pkg/api"
	"sluice/pkg/dynamo"
	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// BenchmarkExport measures how many events per second the worker exports.
//
//	go test -run NONE -bench Export -benchtime 5x ./functions
func BenchmarkExport(b *testing.B) {
	const records, shards = 50_000, 1
	engine, server := dynamolocal.Start(b), s3local.Start(b)
	client, table := engine.Client(), engine.Table(b, "EventsTable")
	importEvents(b, client, table, shards, records, eventsOf(420))
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	files, err := files.NewS3(server.Client(), server.Bucket(b))
	check(err)
	jobs, err := dynamo.NewJobs(client, exportjob.Kind, engine.Table(b, "ExportJobsTable"))
	check(err)
	entities, err := dynamo.NewEntities(client, "none", dynamo.EntitiesConfig{})
	check(err)
	events, err := dynamo.NewEvents(client, table, dynamo.EventsConfig{Shards: dynamo.Shards{Write: shards}})
	check(err)
	exporter, err := exportjob.NewExporter(entities, events, files, exportjob.Config{})
	check(err)
	w, err := job.NewWorker(exportjob.Kind, jobs, exporter, job.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	n := 0
	for b.Loop() {
		order := api.ExportOrder{ID: fmt.Sprint(n), Resource: record.Event, Format: record.NDJSON}
		_, _, err := exportjob.Create(b.Context(), jobs, "default", order, exportjob.Kind.Quota, time.Now())
		check(err)
		check(w.Run(b.Context(), "default", order.ID))
		n++
	}
	b.ReportMetric(float64(records*n)/b.Elapsed().Seconds(), "records/s")
}
