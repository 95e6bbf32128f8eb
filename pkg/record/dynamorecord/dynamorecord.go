// Package dynamorecord is shared by the stores that keep records in DynamoDB:
// conditional puts, pages of one query or of several merged, attributes of items,
// and the meaning of the SDK's errors.
package dynamorecord

import (
	"context"
	"errors"

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

// Get returns the item with that key, nil if the table has none. The read is
// strongly consistent.
func Get(ctx context.Context, client Getter, table string, key Item) (Item, error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}
