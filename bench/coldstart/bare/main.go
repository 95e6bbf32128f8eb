// Command bare is a minimal function with a DynamoDB client that LoadDefaultConfig
// configures. If the environment variable CALLS is a number n, the function scans a table
// during init and then makes n concurrent calls. Sluice's functions make the same calls:
// the scan to read the limits, and the concurrent calls to open connections.
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func main() {
	ctx := context.Background()
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client := dynamodb.NewFromConfig(sdk)
	calls, _ := strconv.Atoi(os.Getenv("CALLS"))
	if calls > 0 {
		client.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String("limits"), ConsistentRead: aws.Bool(true)}) //nolint:errcheck // the rows are not needed
	}
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			client.UpdateItem(ctx, &dynamodb.UpdateItemInput{ //nolint:errcheck // the call fails because of its condition
				TableName:           aws.String("counters"),
				Key:                 map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "connect"}},
				UpdateExpression:    aws.String("REMOVE expires_at"),
				ConditionExpression: aws.String("attribute_exists(pk)"),
			})
		})
	}
	wg.Wait()
	lambda.Start(func() (string, error) { return "hello", nil })
}
