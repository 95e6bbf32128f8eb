// Package dynamostore keeps rate limit counters in a DynamoDB table that any
// number of processes share.
//
// The table's partition key is pk (S): address, class and window, as
// ratelimit.Key writes them. Each counter is a number attribute of its own
// name, and expires_at (N, Unix seconds) is for the table's time to live,
// which only cleans up: a key is never used again once its window is over.
//
// A charge is one UpdateItem: it adds all costs on the condition that all of
// them fit. DynamoDB applies it whole or not at all, one after the other for
// each item, so concurrent processes cannot pass a limit together. A
// transaction would cost twice the write units and fail on conflicts where
// this waits its turn; a read before the write would race.
package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsratelimit "github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// retention is how long an item outlives its window: long enough for an
// overview of the last minute.
const retention = 5 * time.Minute

// timeout is the longest that a charge waits for DynamoDB.
const timeout = 2 * time.Second

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Store is a ratelimit.Store. It is safe for concurrent use.
type Store struct {
	client  Client
	table   string
	timeout time.Duration
	options []func(*dynamodb.Options) // of a charge
}

// New makes a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("ratelimit dynamostore: a client and a table name are required")
	}
	retryer := newRetryer()
	charge := func(o *dynamodb.Options) { o.Retryer = retryer }
	return &Store{client: client, table: table, timeout: timeout, options: []func(*dynamodb.Options){charge, ignoreChecksum}}, nil
}

// ignoreChecksum keeps the SDK from warning of a wrong checksum after each
// refused charge where the engine sends none with errors, as DynamoDB Local
// does: it takes an absent one for 0. It only warns, after it has read the
// answer, so nothing is lost; TLS guards what comes from AWS.
func ignoreChecksum(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }

// newRetryer repeats a charge once if it cannot have been applied: DynamoDB
// throttled it, or no connection was made. Any other failure may hide a charge
// that was applied, and a repeat would count it twice, as the SDK's own
// retryer would.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 2
		o.MaxBackoff = 50 * time.Millisecond
		o.RateLimiter = awsratelimit.None
		o.Retryables = []retry.IsErrorRetryable{
			retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes},
			retry.IsErrorRetryableFunc(notConnected),
		}
	})
}

// notConnected reports whether err is a failure to connect.
func notConnected(err error) aws.Ternary {
	var op *net.OpError
	return aws.BoolTernary(errors.As(err, &op) && op.Op == "dial")
}

// Charge implements ratelimit.Store with one UpdateItem of one write unit, and
// waits for it no longer than 2 seconds. A cost above its limit is refused
// without a call, because the condition lets an absent counter pass whatever is
// added to it.
func (s *Store) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	for _, c := range costs {
		if c.Amount > c.Rule.Limit {
			return ratelimit.Result{Used: make([]int64, len(costs))}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.UpdateItem(ctx, s.update(key, costs), s.options...)
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		used, err := readUsed(refused.Item, costs)
		return ratelimit.Result{Used: used}, err
	case err != nil:
		return ratelimit.Result{}, fmt.Errorf("update counters: %w", err)
	}
	used, err := readUsed(out.Attributes, costs)
	return ratelimit.Result{Admitted: true, Used: used}, err
}

// Connect makes the connection that the first charge would have to make: one
// UpdateItem on the condition that an item exists which does not. It changes
// nothing, takes one write unit and needs no permission that a charge does not
// need. The key is a new one each time, so that many instances that start at
// once do not meet in one partition.
func (s *Store) Connect(ctx context.Context) error {
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.table,
		Key:                 map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "connect#" + rand.Text()}},
		UpdateExpression:    aws.String("REMOVE expires_at"),
		ConditionExpression: aws.String("attribute_exists(pk)"),
	}, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }, ignoreChecksum)
	var absent *types.ConditionalCheckFailedException
	if err == nil || errors.As(err, &absent) {
		return nil
	}
	return fmt.Errorf("connect to the counters: %w", err)
}

// update returns the UpdateItem that charges costs. A cost of 0 always fits and
// adds nothing, so it is left out; the response has its counter nevertheless.
func (s *Store) update(key ratelimit.Key, costs []ratelimit.Cost) *dynamodb.UpdateItemInput {
	names := map[string]string{"#expires_at": "expires_at"}
	values := map[string]types.AttributeValue{":expires_at": number(key.Window.Reset() + int64(retention/time.Second))}
	var add, conditions []string
	for i, c := range costs {
		if c.Amount == 0 {
			continue
		}
		name, amount, room := fmt.Sprintf("#counter%d", i), fmt.Sprintf(":amount%d", i), fmt.Sprintf(":room%d", i)
		names[name] = c.Rule.Counter
		values[amount] = number(c.Amount)
		values[room] = number(c.Rule.Limit - c.Amount)
		add = append(add, name+" "+amount)
		conditions = append(conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %[1]s <= %s)", name, room))
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 itemKey(key),
		UpdateExpression:                    aws.String("SET #expires_at = :expires_at"),
		ExpressionAttributeNames:            names,
		ExpressionAttributeValues:           values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if len(add) > 0 {
		*in.UpdateExpression += " ADD " + strings.Join(add, ", ")
		in.ConditionExpression = aws.String(strings.Join(conditions, " AND "))
	}
	return in
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// readUsed returns the counters of costs in item. An absent attribute is 0.
func readUsed(item map[string]types.AttributeValue, costs []ratelimit.Cost) ([]int64, error) {
	used := make([]int64, len(costs))
	for i, c := range costs {
		name := c.Rule.Counter
		switch v := item[name].(type) {
		case nil:
		case *types.AttributeValueMemberN:
			var err error
			if used[i], err = strconv.ParseInt(v.Value, 10, 64); err != nil {
				return nil, fmt.Errorf("read counter %s: %w", name, err)
			}
		default:
			return nil, fmt.Errorf("read counter %s: it is a %T, not a number", name, v)
		}
	}
	return used, nil
}
