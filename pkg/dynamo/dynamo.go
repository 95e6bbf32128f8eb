// Package dynamo implements the stores with DynamoDB tables. Each store declares the part of
// *dynamodb.Client that it uses, so that a Lambda function links only what it calls.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sluice/pkg/record"
)

var errNoTable = errors.New("dynamo: a client and a table name are required")

// These are parts of *dynamodb.Client that several stores use.
type putter interface {
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

type getter interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

type querier interface {
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

type batchGetter interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

type updater interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

type deleter interface {
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

type transactor interface {
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// createItem stores r unless an item with the same key exists. item is the encoded r, and
// hashKey is the table's partition key. It returns the record that is stored after the call, and
// whether this call created it. One API call is enough, because the response to a failed put
// contains the existing item. edit, if not nil, may change the put.
//
// If the SDK retries a put whose response was lost, the retry finds the item of the first
// attempt: created is then false, and stored equals r.
func createItem[R any](ctx context.Context, client putter, table, hashKey string, r R, item attributeValues, decode func(attributeValues) (R, error), edit func(*dynamodb.PutItemInput), opts ...func(*dynamodb.Options)) (stored R, created bool, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames:            map[string]string{"#key": hashKey},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if edit != nil {
		edit(in)
	}
	_, err = client.PutItem(ctx, in, opts...)
	var exists *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return r, true, nil
	case !errors.As(err, &exists):
		return stored, false, storeError("put into "+table, err)
	}
	stored, err = decode(exists.Item)
	return stored, false, err
}

// getItem uses a strongly consistent read. found is false if there is no such item.
func getItem[R any](ctx context.Context, client getter, table string, key attributeValues, decode func(attributeValues) (R, error)) (r R, found bool, err error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	switch {
	case err != nil:
		return r, false, storeError("get from "+table, err)
	case out.Item == nil:
		return r, false, nil
	}
	r, err = decode(out.Item)
	return r, true, err
}

const maxBatchGet = 100

// unreadWait is the upper bound of the random wait before batchGet asks for unread keys again. DynamoDB
// leaves keys unread if their items exceed 16 MB or the table is throttled.
const unreadWait = 100 * time.Millisecond

// batchGet returns the items of at most maxBatchGet different keys, those that exist, in no particular
// order.
func batchGet(ctx context.Context, client batchGetter, table string, keys []attributeValues, consistent bool) (items []attributeValues, err error) {
	unread := types.KeysAndAttributes{Keys: keys, ConsistentRead: &consistent}
	for {
		out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: unread}})
		if err != nil {
			return nil, err
		}
		items = append(items, out.Responses[table]...)
		if unread = out.UnprocessedKeys[table]; len(unread.Keys) == 0 {
			return items, nil
		}
		select {
		case <-time.After(rand.N(unreadWait)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// scanItems returns records in no particular order.
func scanItems[R any](ctx context.Context, client dynamodb.ScanAPIClient, in *dynamodb.ScanInput, decode func(attributeValues) (R, error)) ([]R, error) {
	var all []R
	for pages := dynamodb.NewScanPaginator(client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, storeError("scan "+aws.ToString(in.TableName), err)
		}
		some, err := each(page.Items, decode)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// storeError wraps an SDK error. If DynamoDB rejected the call itself, for example because a
// table is missing or access is denied, this service is at fault, and the result is not a
// *record.Error. In all other cases, a retry may succeed, so the result has code Unavailable.
func storeError(op string, err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return record.UnavailableError(op, err)
}

// isRefusal reports whether DynamoDB rejected the call itself, so that a retry would fail too.
// It looks at the HTTP status, because many errors have no type in the SDK. Throttling also
// has status 400, but is temporary.
func isRefusal(err error) bool {
	var apiError smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &apiError) || !errors.As(err, &response) {
		return false
	}
	_, throttled := retry.DefaultThrottleErrorCodes[apiError.ErrorCode()]
	_, timedOut := retry.DefaultRetryableErrorCodes[apiError.ErrorCode()]
	// Transaction errors usually mean a conflict with another request.
	transaction := strings.HasPrefix(apiError.ErrorCode(), "Transaction")
	status := response.HTTPStatusCode()
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError && !throttled && !timedOut && !transaction
}
