// Command usage is the function of the route GET /usage.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit/dynamostore"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	usage, err := dynamostore.NewUsage(instance.DynamoDB, os.Getenv("COUNTERS_TABLE"))
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("usage", httpapi.Stores{Usage: usage})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
