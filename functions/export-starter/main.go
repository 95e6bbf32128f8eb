// Command export-starter runs new export jobs, which arrive on the stream of ExportJobsTable.
// It completes small jobs, and begins large jobs, which export-worker completes.
package main

import (
	"sluice/functions/internal/exportwork"
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.Start(exportjob.Kind, exportwork.Open) }
