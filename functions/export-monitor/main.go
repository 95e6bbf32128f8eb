// Command export-monitor is the function that a schedule starts every five
// minutes: it measures how long export jobs wait for a worker.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/functions/internal/exportmonitor"
)

func main() {
	monitor, err := exportmonitor.New(context.Background(), os.Getenv, os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(monitor.Handle)
}
