// Command erasure-worker completes erasures of entities, and erases their events. The stream of
// ErasureJobsTable invokes it.
package main

import (
	"sluice/functions/internal/jobs"
	"sluice/pkg/erasurejob"
)

func main() { jobs.Start(erasurejob.Kind, jobs.OpenEraser) }
