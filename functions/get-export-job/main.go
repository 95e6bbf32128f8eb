// Command get-export-job is the function of the route GET /export_job/{id}.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/exportjob/s3files"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("get-export-job", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		if s.ExportJobs, err = dynamostore.New(c.DynamoDB, os.Getenv("EXPORT_JOBS_TABLE")); err != nil {
			return s, err
		}
		s.ExportLinks, err = s3files.Open(c.AWS, os.Getenv)
		return s, err
	})
}
