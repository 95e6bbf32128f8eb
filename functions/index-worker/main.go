// Command index-worker builds and removes the indexes that are declared. A schedule invokes it every
// minute.
package main

import "sluice/functions/internal/jobs"

func main() { jobs.StartIndexes() }
