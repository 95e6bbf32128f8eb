// Command bare is a minimal Lambda function with a DynamoDB client from LoadDefaultConfig.
// If the environment variable CALLS is above 0, the command makes the same calls during init as
// Sluice's functions: it scans the limits table, and then opens connections with CALLS concurrent
// calls. One of these calls reads the id of the service. If INDEXED is set, a query for the
// indexed attributes follows that read.
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
	if calls > 0 {
		wg.Go(func() {
			client.GetItem(ctx, &dynamodb.GetItemInput{ //nolint:errcheck // the id is not needed
				TableName: aws.String("entities"),
				Key:       map[string]types.AttributeValue{"workspace": &types.AttributeValueMemberS{Value: "#service"}, "id": &types.AttributeValueMemberS{Value: "id"}},
			})
			if os.Getenv("INDEXED") != "" {
				client.Query(ctx, &dynamodb.QueryInput{ //nolint:errcheck // the attributes are not needed
					TableName: aws.String("entities"), ConsistentRead: aws.Bool(true),
					KeyConditionExpression:    aws.String("workspace = :partition"),
					ExpressionAttributeValues: map[string]types.AttributeValue{":partition": &types.AttributeValueMemberS{Value: "#indexes"}},
				})
			}
		})
	}
	for range calls - 1 {
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
