// Command not-found is the function of the default route.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("not-found", httpapi.Stores{})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
