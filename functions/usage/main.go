// Command usage is the function of the route GET /usage.
package main

import (
	"os"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit/dynamostore"
)

func main() {
	bootstrap.Start("usage", func(c bootstrap.Clients) (s httpapi.Stores, err error) {
		s.Usage, err = dynamostore.NewUsage(c.DynamoDB, os.Getenv("COUNTERS_TABLE"))
		return s, err
	})
}
