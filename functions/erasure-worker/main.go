// Command erasure-worker erases the events of deleted entities. The stream of ErasureJobsTable
// invokes it.
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
		events, err := dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock)
		if err != nil {
			return nil, err
		}
		return erasurejob.NewEraser(events, erasurejob.Config{MaxRate: erasurejob.MaxRate})
	})
}
