// Command export-worker is the function that completes large export jobs, which export-starter
// has begun. The stream of the export jobs' table invokes it.
package main

import "sluice/functions/internal/exportworker"

func main() { exportworker.Start() }
