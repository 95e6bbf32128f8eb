// Command upsert-entities is the function of the route POST /upsert_entities.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/entity/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("upsert-entities", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.Entities, err = dynamostore.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
