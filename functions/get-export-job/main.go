// Command get-export-job is the function of the route GET /export_job/{id}.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/bootstrap"
	"sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/exportjob/s3files"
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
	links, err := s3files.OpenLinks(instance.AWS, os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := instance.Handler("get-export-job", httpapi.Stores{ExportJobs: jobs, ExportLinks: links})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler.Invoke)
}
