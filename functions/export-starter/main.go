// Command export-starter runs new export jobs, which arrive on the stream of their table. It
// writes the whole file of a small job, and begins that of a large one, which export-worker
// completes.
package main

import (
	"sluice/functions/internal/exportwork"
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.Start(exportjob.Kind, exportwork.Open) }
