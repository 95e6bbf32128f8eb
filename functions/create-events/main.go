// Command create-events is the function of the route POST /create_events.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/event/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("create-events", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.Events, err = dynamostore.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
