// Command job-monitor measures the age of the oldest unfinished job of any kind. A schedule
// invokes it every five minutes.
package main

import (
	"sluice/functions/internal/jobs"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
)

func main() { jobs.StartMonitor(exportjob.Kind, erasurejob.Kind) }
