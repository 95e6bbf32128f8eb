// Command get-export-job is the function of the route GET /export_job/{id}.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/exportjob/s3files"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("get-export-job", bootstrap.ExportJobs, func(c bootstrap.Clients, stores *httpapi.Stores) (err error) {
		stores.ExportLinks, err = s3files.Open(c.AWS, os.Getenv)
		return err
	})
}
