// Command list-export-job is the function of the route GET /export_job.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/httpapi"
)

func main() {
	instance, err := bootstrap.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := dynamostore.New(instance.DynamoDB, os.Getenv("EXPORT_JOBS_TABLE"))
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("list-export-job", httpapi.Stores{ExportJobs: jobs})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
