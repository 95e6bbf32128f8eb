// Package exportwork opens the stores for the two functions that run export jobs.
package exportwork

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dynamo"
	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/job"
)

// Open reads the environment variables ENTITIES_TABLE, EVENTS_TABLE, EXPORT_JOBS_BUCKET and
// EXPORT_FILE_DAYS.
func Open(c bootstrap.Clients) (job.Work, error) {
	entities, err := dynamo.OpenEntities(c.DynamoDB, os.Getenv, c.Clock, nil)
	if err != nil {
		return nil, err
	}
	events, err := dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock, nil)
	if err != nil {
		return nil, err
	}
	indexes, err := dynamo.OpenIndexes(c.DynamoDB, os.Getenv)
	if err != nil {
		return nil, err
	}
	files, err := files.OpenS3(c.AWS, os.Getenv)
	if err != nil {
		return nil, err
	}
	days, err := exportjob.ParseFileDays(os.Getenv("EXPORT_FILE_DAYS"))
	if err != nil {
		return nil, err
	}
	return exportjob.NewExporter(entities, events, files, exportjob.Config{FileDays: days, Indexes: indexes})
}
