// Command export-starter is the function that runs new export jobs. The stream of the
// export jobs' table invokes it. It writes the files of small jobs completely, and begins
// the files of large jobs, which export-worker continues.
package main

import "sluice/functions/internal/exportworker"

func main() { exportworker.Start() }
