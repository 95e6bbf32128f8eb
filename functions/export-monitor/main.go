// Command export-monitor is the function that measures how long export jobs wait for a
// worker. A schedule invokes it every five minutes.
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
