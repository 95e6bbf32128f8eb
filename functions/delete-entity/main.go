// Command delete-entity is the function of the route POST /delete_entity.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/entity/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	entities, err := dynamostore.New(instance.DynamoDB, os.Getenv("ENTITIES_TABLE"))
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("delete-entity", httpapi.Stores{Entities: entities})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
