// Command get-erasure-job is the function of the route GET /erasure_job/{id}.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("get-erasure-job", bootstrap.ErasureJobs) }
