// Command dashboard is the function of the page: GET /dashboard and
// GET /dashboard/{proxy+}, its files.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("dashboard", httpapi.Stores{Dashboard: dashboard.Files()})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
