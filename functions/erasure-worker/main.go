// Command erasure-worker is the function that the stream of the erasure jobs' table
// starts: it erases the events of entities.
package main

import "sluice/functions/internal/erasureworker"

func main() { erasureworker.Start() }
