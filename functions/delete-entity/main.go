// Command delete-entity is the function of the route POST /delete_entity.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	entitydynamo "sluice/pkg/entity/dynamostore"
	jobdynamo "sluice/pkg/erasurejob/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("delete-entity", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		if s.Entities, err = entitydynamo.Open(c.DynamoDB, os.Getenv); err != nil {
			return s, err
		}
		s.ErasureJobs, err = jobdynamo.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
