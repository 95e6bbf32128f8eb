// Command get-event is the function of the route GET /event/{id}.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/event/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("get-event", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.Events, err = dynamostore.Open(c.DynamoDB, os.Getenv)
		return s, err
	})
}
