package template

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type tableClient interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// maxWait is how long CreateTable waits for a table to become active. On AWS, an empty table
// takes up to half a minute; on DynamoDB Local, it is active immediately.
const maxWait = 2 * time.Minute

// ErrDiffers means that a table with this name exists, but its key, indexes, stream or TTL
// attribute differs from the definition. CreateTable leaves that table unchanged.
var ErrDiffers = errors.New("a table of this name exists with another definition")

// CreateTable creates a table unless one with this name exists, waits until it is active, and
// enables its time to live. It may be called again, and several programs may call it
// concurrently. After an error other than ErrDiffers, the table may be incomplete; another call
// completes it. CreateTable is for DynamoDB Local: on AWS, CloudFormation creates the tables.
func CreateTable(ctx context.Context, client tableClient, table Table, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create table %s as %s: %w", table.LogicalID, name, err)
		}
	}()
	in, err := input(table, name)
	if err != nil {
		return err
	}
	_, err = client.CreateTable(ctx, in)
	if taken := new(types.ResourceInUseException); err != nil && !errors.As(err, &taken) {
		return err
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
		o.MaxDelay = 2 * time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &name}, maxWait)
	if err != nil {
		return err
	}
	if !same(in, out.Table) {
		return ErrDiffers
	}
	if !table.TTL.Enabled {
		return nil
	}
	return expire(ctx, client, name, string(table.TTL.AttributeName))
}

func input(table Table, name string) (*dynamodb.CreateTableInput, error) {
	text, err := json.Marshal(table)
	if err != nil {
		return nil, err
	}
	in := &dynamodb.CreateTableInput{TableName: &name}
	if err := json.Unmarshal(text, in); err != nil {
		return nil, err
	}
	if in.StreamSpecification != nil {
		in.StreamSpecification.StreamEnabled = aws.Bool(true)
	}
	return in, nil
}

// same reports whether the existing table has the requested key, attributes, indexes and
// stream. It ignores the order of attributes and indexes, because DynamoDB may change it.
func same(in *dynamodb.CreateTableInput, exists *types.TableDescription) bool {
	for _, i := range in.GlobalSecondaryIndexes {
		slices.Sort(i.Projection.NonKeyAttributes)
	}
	var indexes []types.GlobalSecondaryIndex
	for _, i := range exists.GlobalSecondaryIndexes {
		slices.Sort(i.Projection.NonKeyAttributes)
		indexes = append(indexes, types.GlobalSecondaryIndex{IndexName: i.IndexName, KeySchema: i.KeySchema, Projection: i.Projection})
	}
	attributeName := func(a types.AttributeDefinition) string { return aws.ToString(a.AttributeName) }
	indexName := func(i types.GlobalSecondaryIndex) string { return aws.ToString(i.IndexName) }
	return reflect.DeepEqual(in.KeySchema, exists.KeySchema) &&
		reflect.DeepEqual(in.StreamSpecification, exists.StreamSpecification) &&
		reflect.DeepEqual(sorted(in.AttributeDefinitions, attributeName), sorted(exists.AttributeDefinitions, attributeName)) &&
		reflect.DeepEqual(sorted(in.GlobalSecondaryIndexes, indexName), sorted(indexes, indexName))
}

func sorted[E any](all []E, name func(E) string) []E {
	return slices.SortedFunc(slices.Values(all), func(a, b E) int { return cmp.Compare(name(a), name(b)) })
}

// expire turns on time to live. DynamoDB rejects the update if time to live is already on.
func expire(ctx context.Context, client tableClient, name, attribute string) error {
	_, updateErr := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: aws.Bool(true)},
	})
	if updateErr == nil {
		return nil
	}
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return fmt.Errorf("describe time to live: %w", err)
	}
	switch ttl := out.TimeToLiveDescription; {
	case ttl == nil || ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling:
		return fmt.Errorf("update time to live: %w", updateErr)
	case aws.ToString(ttl.AttributeName) != attribute:
		return ErrDiffers
	}
	return nil
}
