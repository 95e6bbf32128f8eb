// Package dynamotable creates DynamoDB tables from their definition in the
// deployment template, for engines that AWS CloudFormation does not reach:
// DynamoDB Local in tests and on a developer's machine.
package dynamotable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/template"
)

// Client is what Create needs of a *dynamodb.Client.
type Client interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// MaxWait is how long Create waits at most for a table to become active. AWS
// takes up to half a minute for an empty one, DynamoDB Local none.
const MaxWait = 2 * time.Minute

// ErrDiffers is the error for a table of the name that has other keys, indexes,
// another stream or TTL attribute than its definition. Create leaves it as it was.
var ErrDiffers = errors.New("a table of this name exists with another definition")

// Create makes sure that a table like table exists under name and is active,
// and that its items expire where they are to. It may be called again, also by
// several programs at once. After any other error than ErrDiffers a table may
// be left; calling again finishes it.
func Create(ctx context.Context, client Client, table template.Table, name string) error {
	if err := create(ctx, client, table, name); err != nil {
		return fmt.Errorf("create table %s as %s: %w", table.LogicalID, name, err)
	}
	return nil
}

func create(ctx context.Context, client Client, table template.Table, name string) error {
	_, err := client.CreateTable(ctx, input(table, name))
	if taken := new(types.ResourceInUseException); err != nil && !errors.As(err, &taken) {
		return err
	}

	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
		o.MaxDelay = 2 * time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &name}, MaxWait)
	if err != nil {
		return err
	}
	if !same(table, out.Table) {
		return ErrDiffers
	}
	if table.TTLAttribute == "" {
		return nil
	}
	return expire(ctx, client, name, table.TTLAttribute)
}

// input is the request for the table.
func input(table template.Table, name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   key(table.Hash, table.Range),
	}
	for _, attribute := range slices.Sorted(maps.Keys(table.Attributes)) {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(attribute),
			AttributeType: types.ScalarAttributeType(table.Attributes[attribute]),
		})
	}
	for _, index := range table.Indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(index.Name),
			KeySchema:  key(index.Hash, index.Range),
			Projection: &types.Projection{ProjectionType: types.ProjectionType(index.Projection)},
		})
	}
	if table.StreamView != "" {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewType(table.StreamView)}
	}
	return in
}

func key(hash, rng string) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}}
	if rng != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: &rng, KeyType: types.KeyTypeRange})
	}
	return schema
}

// same reports whether the table that exists has the attributes, the keys, the
// indexes and the stream of the definition.
func same(table template.Table, exists *types.TableDescription) bool {
	attributes := map[string]string{}
	for _, a := range exists.AttributeDefinitions {
		attributes[aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	var indexes []template.Index
	for _, i := range exists.GlobalSecondaryIndexes {
		index := template.Index{Name: aws.ToString(i.IndexName)}
		index.Hash, index.Range = names(i.KeySchema)
		if i.Projection != nil {
			index.Projection = string(i.Projection.ProjectionType)
		}
		indexes = append(indexes, index)
	}
	view := ""
	if stream := exists.StreamSpecification; stream != nil && aws.ToBool(stream.StreamEnabled) {
		view = string(stream.StreamViewType)
	}
	hash, rng := names(exists.KeySchema)
	return view == table.StreamView && hash == table.Hash && rng == table.Range &&
		maps.Equal(attributes, table.Attributes) &&
		len(indexes) == len(table.Indexes) &&
		!slices.ContainsFunc(indexes, func(i template.Index) bool { return !slices.Contains(table.Indexes, i) })
}

// names is the inverse of key.
func names(schema []types.KeySchemaElement) (hash, rng string) {
	for _, e := range schema {
		if e.KeyType == types.KeyTypeHash {
			hash = aws.ToString(e.AttributeName)
		} else {
			rng = aws.ToString(e.AttributeName)
		}
	}
	return hash, rng
}

// expire lets the table's items expire by the attribute.
func expire(ctx context.Context, client Client, name, attribute string) error {
	done, err := expires(ctx, client, name, attribute)
	if done || err != nil {
		return err
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: &attribute,
			Enabled:       aws.Bool(true),
		},
	})
	if err == nil {
		return nil
	}
	// DynamoDB has no code of its own for "already enabled": another creator of
	// the same table may have been faster.
	if done, again := expires(ctx, client, name, attribute); done || again != nil {
		return again
	}
	return fmt.Errorf("update time to live: %w", err)
}

// expires reports whether the table's items expire by the attribute already.
func expires(ctx context.Context, client Client, name, attribute string) (bool, error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return false, fmt.Errorf("describe time to live: %w", err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil {
		return false, nil
	}
	switch ttl.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if aws.ToString(ttl.AttributeName) != attribute {
			return false, ErrDiffers
		}
		return true, nil
	}
	return false, nil
}
