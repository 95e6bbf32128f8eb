// Command export-monitor is the function that measures how long export jobs wait for a
// worker. A schedule invokes it every five minutes.
package main

import (
	"sluice/functions/internal/jobs"
	"sluice/pkg/exportjob"
)

func main() { jobs.StartMonitor(exportjob.Kind) }
