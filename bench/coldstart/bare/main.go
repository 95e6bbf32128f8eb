// Command bare is a minimal Lambda function with a DynamoDB client from LoadDefaultConfig.
// If the environment variable CALLS is set, the command makes as many calls during init, side by
// side like Sluice's functions: it scans the limits table, reads the id of the service, queries the
// indexes, if INDEXED is set, and makes the other calls only to open connections.
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
	count, _ := strconv.Atoi(os.Getenv("CALLS"))
	var calls []func() // their results are not needed
	calls = append(calls, func() {
		client.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String("limits")}) //nolint:errcheck // not needed
	}, func() {
		client.GetItem(ctx, &dynamodb.GetItemInput{ //nolint:errcheck // not needed
			TableName: aws.String("entities"),
			Key:       map[string]types.AttributeValue{"workspace": &types.AttributeValueMemberS{Value: "#service"}, "id": &types.AttributeValueMemberS{Value: "id"}},
		})
	})
	if os.Getenv("INDEXED") != "" {
		calls = append(calls, func() {
			client.Query(ctx, &dynamodb.QueryInput{ //nolint:errcheck // not needed
				TableName: aws.String("entities"), ConsistentRead: aws.Bool(true),
				KeyConditionExpression:    aws.String("workspace = :partition"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":partition": &types.AttributeValueMemberS{Value: "#indexes"}},
			})
		})
	}
	for len(calls) < count {
		calls = append(calls, func() {
			client.UpdateItem(ctx, &dynamodb.UpdateItemInput{ //nolint:errcheck // fails because of its condition
				TableName:           aws.String("counters"),
				Key:                 map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "connect"}},
				UpdateExpression:    aws.String("REMOVE expires_at"),
				ConditionExpression: aws.String("attribute_exists(pk)"),
			})
		})
	}
	var wg sync.WaitGroup
	for _, call := range calls[:count] {
		wg.Go(call)
	}
	wg.Wait()
	lambda.Start(func() (string, error) { return "hello", nil })
}
