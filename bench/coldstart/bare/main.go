// Command bare is the least function that can reach DynamoDB: what the cold
// starts of Sluice's functions are measured beside. It is configured by the SDK's
// own search. BARE=environment has it configured as Sluice's functions are, and
// CALLS=1 also has it make a call in its init phase, as they do; CALLS=10 ten at once.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func main() {
	ctx := context.Background()
	client := dynamodb.NewFromConfig(configuration(ctx))
	calls, _ := strconv.Atoi(os.Getenv("CALLS")) //nolint:errcheck // none by default
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() { call(ctx, client) })
	}
	wg.Wait()
	lambda.Start(func() (string, error) { return "hello", nil })
}

func configuration(ctx context.Context) aws.Config {
	if os.Getenv("BARE") != "environment" {
		sdk, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			log.Fatal(err)
		}
		return sdk
	}
	env, err := config.NewEnvConfig()
	if err != nil {
		log.Fatal(err)
	}
	return aws.Config{Region: env.Region, Credentials: credentials.StaticCredentialsProvider{Value: env.Credentials}, ConfigSources: []any{env}}
}

// call makes a call as the functions do: an update whose condition no item meets.
func call(ctx context.Context, client *dynamodb.Client) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 aws.String("counters"),
		Key:                       map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "none"}},
		UpdateExpression:          aws.String("SET n = :n"),
		ConditionExpression:       aws.String("attribute_exists(pk)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: "1"}},
	})
	if missing := new(types.ConditionalCheckFailedException); !errors.As(err, &missing) {
		log.Fatal(err)
	}
}
