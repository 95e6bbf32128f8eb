// Package dynamorecord is shared by the stores that keep records in DynamoDB:
// conditional puts, pages of one query or of several merged, attributes of items,
// and the meaning of the SDK's errors.
package dynamorecord

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Putter is the part of *dynamodb.Client that Create uses.
type Putter interface {
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// Getter is the part of *dynamodb.Client that Get uses.
type Getter interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Querier is the part of *dynamodb.Client that Page, Merge and Count use.
type Querier interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Create puts item into a table unless the table has an item with the same key.
// It returns the item that the table then has, and whether that is item. It makes
// one call. hashKey is the name of the table's partition key attribute.
//
// If the SDK retries a put whose response was lost, the retry finds the item of
// the first attempt: created is then false and stored equals item.
func Create(ctx context.Context, client Putter, table, hashKey string, item Item) (stored Item, created bool, err error) {
	return putIf(ctx, client, &dynamodb.PutItemInput{
		TableName:                &table,
		Item:                     item,
		ConditionExpression:      aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames: map[string]string{"#key": hashKey},
	})
}

// Replace puts item in place of an item with the same key, if that still has the
// attributes of was. It returns the item that the table then has, nil if it has
// none with that key, and whether that is item. It makes one call.
//
// If the SDK retries a put whose response was lost, the retry finds the item of
// the first attempt: replaced is then false and stored equals item.
func Replace(ctx context.Context, client Putter, table string, was, item Item) (stored Item, replaced bool, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                 &table,
		Item:                      item,
		ExpressionAttributeNames:  make(map[string]string, len(was)),
		ExpressionAttributeValues: make(Item, len(was)),
	}
	var conditions []string
	for i, name := range slices.Sorted(maps.Keys(was)) {
		nameKey, valueKey := fmt.Sprintf("#n%d", i), fmt.Sprintf(":v%d", i)
		conditions = append(conditions, nameKey+" = "+valueKey)
		in.ExpressionAttributeNames[nameKey], in.ExpressionAttributeValues[valueKey] = name, was[name]
	}
	in.ConditionExpression = aws.String(strings.Join(conditions, " AND "))
	return putIf(ctx, client, in)
}

// putIf makes a conditional put. It returns the item that the table then has, and
// whether that is the item of the put.
func putIf(ctx context.Context, client Putter, in *dynamodb.PutItemInput) (stored Item, put bool, err error) {
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	_, err = client.PutItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &failed):
		return failed.Item, false, nil
	case err != nil:
		return nil, false, err
	}
	return in.Item, true, nil
}

// Get returns the item with that key, nil if the table has none. The read is
// strongly consistent.
func Get(ctx context.Context, client Getter, table string, key Item) (Item, error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}
