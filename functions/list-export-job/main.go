// Command list-export-job serves GET /export_job.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-export-job", bootstrap.ExportJobs) }
