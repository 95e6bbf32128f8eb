// Command openapi is the function of the route GET /openapi.yaml.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice"
	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("openapi", httpapi.Stores{OpenAPI: sluice.OpenAPI})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
