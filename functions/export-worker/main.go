// Command export-worker completes large export jobs that export-starter has begun. The stream
// of ExportJobsTable invokes it.
package main

import (
	"sluice/functions/internal/exportwork"
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.Start(exportjob.Kind, exportwork.Open) }
