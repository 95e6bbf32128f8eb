// Command export-worker is the function that the stream of the export jobs' table
// starts: it writes their files.
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
