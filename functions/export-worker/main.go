// Command export-worker is the function that writes the files of export jobs. The stream of
// the export jobs' table invokes it.
package main

import "sluice/functions/internal/exportworker"

func main() { exportworker.Start() }
