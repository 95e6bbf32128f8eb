package jobs

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob"
	"sluice/pkg/job"
)

// OpenEraser opens the stores of erasure jobs, for Start.
func OpenEraser(c bootstrap.Clients) (job.Work, error) {
	entities, err := dynamo.OpenEntities(c.DynamoDB, os.Getenv, c.Clock, nil) // erases, and changes no attribute
	if err != nil {
		return nil, err
	}
	events, err := dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock, nil)
	if err != nil {
		return nil, err
	}
	return erasurejob.NewEraser(entities, events, erasurejob.Config{MaxRate: erasurejob.MaxRate})
}
