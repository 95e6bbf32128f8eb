package bootstrap

import (
	"os"

	entitydynamo "sluice/pkg/entity/dynamostore"
	erasuredynamo "sluice/pkg/erasurejob/dynamostore"
	eventdynamo "sluice/pkg/event/dynamostore"
	exportdynamo "sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit/dynamostore"
)

// Opener opens a store and assigns it to a field of the given Stores. The names of the tables
// are in the environment variables that template.yaml sets.
type Opener func(c Clients, stores *httpapi.Stores) error

// Entities is the Opener of Stores.Entities.
func Entities(c Clients, stores *httpapi.Stores) (err error) {
	stores.Entities, err = entitydynamo.Open(c.DynamoDB, os.Getenv)
	return err
}

// Events is the Opener of Stores.Events.
func Events(c Clients, stores *httpapi.Stores) (err error) {
	stores.Events, err = eventdynamo.Open(c.DynamoDB, os.Getenv)
	return err
}

// ExportJobs is the Opener of Stores.ExportJobs.
func ExportJobs(c Clients, stores *httpapi.Stores) (err error) {
	stores.ExportJobs, err = exportdynamo.New(c.DynamoDB, os.Getenv("EXPORT_JOBS_TABLE"))
	return err
}

// ErasureJobs is the Opener of Stores.ErasureJobs.
func ErasureJobs(c Clients, stores *httpapi.Stores) (err error) {
	stores.ErasureJobs, err = erasuredynamo.Open(c.DynamoDB, os.Getenv)
	return err
}

// Usage is the Opener of Stores.Usage.
func Usage(c Clients, stores *httpapi.Stores) (err error) {
	stores.Usage, err = dynamostore.NewUsage(c.DynamoDB, os.Getenv("COUNTERS_TABLE"))
	return err
}
