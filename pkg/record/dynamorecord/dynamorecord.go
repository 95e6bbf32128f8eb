// Package dynamorecord is what the stores of records on DynamoDB share: items
// that are created once or replaced if nothing came between, pages of one query
// or of several as one, attributes of items, and what the errors of the SDK mean.
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

// Querier is the part of *dynamodb.Client that Page and Merge use.
type Querier interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Create puts item into a table unless the table has an item of the same key.
// It returns the item that the table holds afterwards and whether that is
// item, in one call. hashKey is the attribute that is the table's partition key.
//
// When the SDK repeats a put whose answer was lost, the repeat finds the item
// that the first one put: created is then false and stored equals item.
func Create(ctx context.Context, client Putter, table, hashKey string, item Item) (stored Item, created bool, err error) {
	_, err = client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames:            map[string]string{"#key": hashKey},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var exists *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &exists):
		return exists.Item, false, nil
	case err != nil:
		return nil, false, err
	}
	return item, true, nil
}

// Replace puts item over an item of the same key that still equals was, in
// one call. It returns the item that the table holds afterwards, nil if there
// is none of that key, and whether it was replaced.
//
// When the SDK repeats a put whose answer was lost, the repeat finds the item
// that the first one put: replaced is then false and stored equals item.
func Replace(ctx context.Context, client Putter, table string, was, item Item) (stored Item, replaced bool, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &table,
		Item:                                item,
		ExpressionAttributeNames:            make(map[string]string, len(was)),
		ExpressionAttributeValues:           make(Item, len(was)),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	var conditions []string
	for i, name := range slices.Sorted(maps.Keys(was)) {
		nameKey, valueKey := fmt.Sprintf("#n%d", i), fmt.Sprintf(":v%d", i)
		conditions = append(conditions, nameKey+" = "+valueKey)
		in.ExpressionAttributeNames[nameKey], in.ExpressionAttributeValues[valueKey] = name, was[name]
	}
	in.ConditionExpression = aws.String(strings.Join(conditions, " AND "))
	_, err = client.PutItem(ctx, in)
	var differs *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &differs):
		return differs.Item, false, nil
	case err != nil:
		return nil, false, err
	}
	return item, true, nil
}

// Get reads an item strongly consistently; nil if there is none of that key.
func Get(ctx context.Context, client Getter, table string, key Item) (Item, error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}
