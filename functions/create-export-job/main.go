// Command create-export-job serves POST /create_export_job.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-export-job", bootstrap.ExportJobs) }
