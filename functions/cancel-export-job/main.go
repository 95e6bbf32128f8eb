// Command cancel-export-job serves POST /cancel_export_job.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("cancel-export-job", bootstrap.ExportJobs) }
