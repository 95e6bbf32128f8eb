// Command create-export-job is the function of the route POST /create_export_job.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-export-job", bootstrap.ExportJobs) }
