// Command export-worker is the function that the stream of the export jobs' table
// starts: it writes their files.
package main

import "sluice/functions/internal/exportworker"

func main() { exportworker.Start() }
