// Command export-starter is the function that the stream of the export jobs' table
// starts for new jobs: it writes the files of small ones, and begins those of large
// ones, which export-worker continues.
package main

import "sluice/functions/internal/exportworker"

func main() { exportworker.Start() }
