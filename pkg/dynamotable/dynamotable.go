// Package dynamotable creates DynamoDB tables from their definition in the
// deployment template, for engines that AWS CloudFormation does not reach:
// DynamoDB Local in tests and on a developer's machine.
package dynamotable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/template"
)

// Client is the part of *dynamodb.Client that Create uses.
type Client interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// MaxWait bounds how long Create waits for a table to become active. AWS takes
// up to half a minute for an empty table, DynamoDB Local no time.
const MaxWait = 2 * time.Minute

// ErrDiffers is the error for a table of this name whose key, indexes, stream or
// TTL attribute differ from the definition. Create leaves it as it was.
var ErrDiffers = errors.New("a table of this name exists with another definition")

// Create creates a table as defined by table under name, unless it exists, waits
// until it is active and enables its expiry. It may be called again, and by
// several programs at once. An error other than ErrDiffers may leave a table
// behind; another call completes it.
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
	if !table.TTL.Enabled {
		return nil
	}
	return expire(ctx, client, name, string(table.TTL.Attribute))
}

// input returns the request that creates the table.
func input(table template.Table, name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingMode(table.BillingMode),
		KeySchema:   schema(table.Key),
	}
	for _, a := range table.Attributes {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(string(a.Name)),
			AttributeType: types.ScalarAttributeType(a.Type),
		})
	}
	for _, index := range table.Indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(string(index.Name)),
			KeySchema:  schema(index.Key),
			Projection: &types.Projection{ProjectionType: types.ProjectionType(index.Projection.Type)},
		})
	}
	if view := table.Stream.View; view != "" {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewType(view)}
	}
	return in
}

func schema(key []template.KeyElement) (schema []types.KeySchemaElement) {
	for _, e := range key {
		schema = append(schema, types.KeySchemaElement{AttributeName: aws.String(string(e.Name)), KeyType: types.KeyType(e.Type)})
	}
	return schema
}

// same reports whether an existing table has the key, the attributes, the
// indexes and the stream of the definition.
func same(table template.Table, exists *types.TableDescription) bool {
	found := template.Table{Key: key(exists.KeySchema)}
	for _, a := range exists.AttributeDefinitions {
		found.Attributes = append(found.Attributes, template.Attribute{Name: text(a.AttributeName), Type: template.Text(a.AttributeType)})
	}
	for _, i := range exists.GlobalSecondaryIndexes {
		index := template.Index{Name: text(i.IndexName), Key: key(i.KeySchema)}
		if i.Projection != nil {
			index.Projection.Type = template.Text(i.Projection.ProjectionType)
		}
		found.Indexes = append(found.Indexes, index)
	}
	if stream := exists.StreamSpecification; stream != nil && aws.ToBool(stream.StreamEnabled) {
		found.Stream.View = template.Text(stream.StreamViewType)
	}
	return slices.Equal(parts(found), parts(table))
}

// parts describes what same compares. It is sorted, because DynamoDB returns
// attributes and indexes in any order.
func parts(t template.Table) []string {
	parts := []string{fmt.Sprint("key ", t.Key), fmt.Sprint("stream ", t.Stream)}
	for _, a := range t.Attributes {
		parts = append(parts, fmt.Sprint("attribute ", a))
	}
	for _, i := range t.Indexes {
		parts = append(parts, fmt.Sprint("index ", i))
	}
	slices.Sort(parts)
	return parts
}

// key is the inverse of schema.
func key(schema []types.KeySchemaElement) (key []template.KeyElement) {
	for _, e := range schema {
		key = append(key, template.KeyElement{Name: text(e.AttributeName), Type: template.Text(e.KeyType)})
	}
	return key
}

func text(s *string) template.Text { return template.Text(aws.ToString(s)) }

// expire enables expiry by the attribute. DynamoDB rejects that if expiry is
// enabled already, by an earlier call or by a concurrent one.
func expire(ctx context.Context, client Client, name, attribute string) error {
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
	if ttl := out.TimeToLiveDescription; ttl != nil {
		switch ttl.TimeToLiveStatus {
		case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
			if aws.ToString(ttl.AttributeName) != attribute {
				return ErrDiffers
			}
			return nil
		}
	}
	return fmt.Errorf("update time to live: %w", updateErr)
}
