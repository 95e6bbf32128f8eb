// Command erasure-worker completes erasures of entities, and erases their events. The stream of
// ErasureJobsTable invokes it.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/functions/internal/jobs"
	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob"
	"sluice/pkg/job"
)

func main() {
	jobs.Start(erasurejob.Kind, func(c bootstrap.Clients) (job.Work, error) {
		entities, err := dynamo.OpenEntities(c.DynamoDB, os.Getenv, c.Clock, nil) // erases, and changes no attribute
		if err != nil {
			return nil, err
		}
		events, err := dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock, nil)
		if err != nil {
			return nil, err
		}
		return erasurejob.NewEraser(entities, events, erasurejob.Config{MaxRate: erasurejob.MaxRate})
	})
}
