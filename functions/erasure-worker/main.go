// Command erasure-worker is the function that erases the events of entities. The stream of
// the erasure jobs' table invokes it.
package main

import "sluice/functions/internal/erasureworker"

func main() { erasureworker.Start() }
