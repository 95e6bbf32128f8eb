// Command export-worker is the function that completes large export jobs, which export-starter
// has begun. The stream of the export jobs' table invokes it.
package main

import (
	"sluice/functions/internal/exportwork"
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.Start(exportjob.Kind, exportwork.Open) }
