// Command get-erasure-job is the function of the route GET /erasure_job/{id}.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/erasurejob/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("get-erasure-job", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.ErasureJobs, err = dynamostore.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
