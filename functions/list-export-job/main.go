// Command list-export-job is the function of the route GET /export_job.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("list-export-job", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.ExportJobs, err = dynamostore.New(c.DynamoDB, os.Getenv("EXPORT_JOBS_TABLE"))
		return s, err
	})
}
