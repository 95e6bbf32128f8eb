// Command export-starter is the function that the stream of the export jobs' table
// starts for new jobs: it writes the files of small ones, and begins those of large
// ones, which export-worker continues.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/exportworker"
)

func main() {
	worker, err := exportworker.New(context.Background(), os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(worker.Handle)
}
