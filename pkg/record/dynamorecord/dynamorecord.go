// Package dynamorecord is what the stores of records on DynamoDB share: items
// that are created once, pages of a query, attributes of items, and what the
// errors of the SDK mean.
package dynamorecord

import (
	"context"
	"errors"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// Putter is the part of *dynamodb.Client that Create uses.
type Putter interface {
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// Querier is the part of *dynamodb.Client that Page uses.
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

// Page runs in until it has limit items or as many bytes as a page may hold
// (record.PageFull, by the size of items). more says whether any are left. It
// sets in's Limit and ExclusiveStartKey, and takes a call for each megabyte,
// where DynamoDB cuts an answer off.
func Page(ctx context.Context, client Querier, in *dynamodb.QueryInput, limit int) (items []Item, more bool, err error) {
	pageBytes := 0
	for {
		// The item after the last tells whether there are more.
		in.Limit = aws.Int32(int32(min(limit-len(items), math.MaxInt32-1) + 1))
		out, err := client.Query(ctx, in)
		if err != nil {
			return nil, false, err
		}
		for _, item := range out.Items {
			n := size(item)
			if len(items) == limit || record.PageFull(len(items), pageBytes, n) {
				return items, true, nil
			}
			items = append(items, item)
			pageBytes += n
		}
		if len(out.LastEvaluatedKey) == 0 {
			return items, false, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
