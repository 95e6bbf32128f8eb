// Command export-starter is the function that runs new export jobs. The stream of the
// export jobs' table invokes it. It writes the files of small jobs completely. It only begins
// the files of large jobs, and export-worker completes them.
package main

import (
	"sluice/functions/internal/exportwork"
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.Start(exportjob.Kind, exportwork.Open) }
