// Command get-export-job serves GET /export_job/{id}.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/files"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("get-export-job", bootstrap.ExportJobs, func(c bootstrap.Clients, stores *httpapi.Stores) (err error) {
		stores.ExportLinks, err = files.OpenS3(c.AWS, os.Getenv)
		return err
	})
}
