// Command health is the function of the route GET /health.
package main

import (
	"errors"
	"os"

	"sluice/functions/internal/bootstrap"
	entitydynamo "sluice/pkg/entity/dynamostore"
	eventdynamo "sluice/pkg/event/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("health", func(c bootstrap.Clients) (httpapi.Stores, error) {
		entities, entityErr := entitydynamo.Open(c.DynamoDB, os.Getenv)
		events, eventErr := eventdynamo.Open(c.DynamoDB, os.Getenv)
		return httpapi.Stores{Entities: entities, Events: events}, errors.Join(entityErr, eventErr)
	})
}
