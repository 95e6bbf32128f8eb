// Command delete-export-job serves POST /delete_export_job.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/files"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("delete-export-job", bootstrap.ExportJobs, func(c bootstrap.Clients, stores *httpapi.Stores) (err error) {
		stores.ExportDeleter, err = files.OpenS3(c.AWS, os.Getenv)
		return err
	})
}
