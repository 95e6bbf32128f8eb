// Command get-erasure-job serves GET /erasure_job/{id}.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("get-erasure-job", bootstrap.ErasureJobs) }
