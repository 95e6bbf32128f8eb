// Command list-entity is the function of the route GET /entity.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/entity/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("list-entity", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.Entities, err = dynamostore.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
