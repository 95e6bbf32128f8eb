// Command create-events is the function of the route POST /create_events.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/event/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.NewWith(context.Background(), os.Getenv, httpapi.BatchWriters)
	if err != nil {
		log.Fatal(err)
	}
	events, err := dynamostore.Open(instance.DynamoDB, os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("create-events", httpapi.Stores{Events: events})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
