package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsratelimit "github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// counterRetention is the time from the end of an item's window until the item may be
// deleted. ratelimit.Usage needs one minute.
const counterRetention = 5 * time.Minute

// CountersClient is the part of *dynamodb.Client that Counters uses.
type CountersClient interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Counters is a ratelimit.Store in a table that any number of processes can share. It is safe
// for concurrent use.
//
// An item holds the counters of one ratelimit.Key:
//
//	pk          S  partition key: identity#scope#minute; the minute as the Unix time of its beginning
//	second      N  sort key: the window, as Unix time
//	records, imports, r_list_entity, …
//	            N  the counters
//	expires_at  N  when the item may be deleted, as Unix time; the TTL attribute of the table
//
// With the minute in the partition key, an identity gets a new one every minute, and one Query
// reads all windows of a scope and minute. Nothing depends on the deletion of items, because
// each window has its own.
//
// A charge is one UpdateItem. It adds all costs, on the condition that all of them fit.
// DynamoDB serializes the updates of an item and applies each one completely or not at
// all, so concurrent processes cannot exceed a limit together. A transaction would take
// twice the write units, and would fail on a conflict with another charge, whereas an
// UpdateItem waits. A read followed by a write would be a race.
type Counters struct {
	// Timeout is the maximum duration of a charge, 2 seconds unless changed before the
	// first one.
	Timeout time.Duration

	client  CountersClient
	table   string
	retryer aws.Retryer // retryer of charges
}

// NewCounters returns the counters in table.
func NewCounters(client CountersClient, table string) (*Counters, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Counters{Timeout: 2 * time.Second, client: client, table: table, retryer: newRetryer()}, nil
}

// counterOptions returns the options of a call. They turn off the SDK's validation of
// response checksums. DynamoDB Local sends no checksum with an error response, so
// the SDK would log a warning for every refused charge. The validation only logs
// warnings, and TLS already protects the responses.
func counterOptions(retryer aws.Retryer) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = retryer
		o.DisableValidateResponseChecksum = true
	}
}

// newRetryer returns a retryer that repeats a charge once if DynamoDB throttled the
// charge or no connection was opened. In these cases, the charge cannot have been
// applied. After any other failure, the charge may have been applied, and a repeated
// charge would count twice. The SDK's default retryer also repeats a charge after such
// failures.
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

// Charge implements ratelimit.Store with one UpdateItem, which takes one write unit. If
// an amount is above its limit, Charge refuses the charge without a call. The condition
// of the UpdateItem would admit such a charge as long as the counter does not exist.
func (s *Counters) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	for _, c := range costs {
		if c.Amount > c.Rule.Limit {
			return ratelimit.Result{}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	out, err := s.client.UpdateItem(ctx, s.update(key, costs), counterOptions(s.retryer))
	result := ratelimit.Result{Used: make([]int64, len(costs))}
	var item attributeValues
	var refused *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		result.Admitted, item = true, out.Attributes
	case errors.As(err, &refused):
		item = refused.Item
	default:
		return ratelimit.Result{}, fmt.Errorf("update counters: %w", err)
	}
	counters, err := readCounters(item)
	if err != nil {
		return ratelimit.Result{}, err
	}
	for i, c := range costs {
		result.Used[i] = counters[c.Rule.Counter]
	}
	return result, nil
}

// Connect opens the connection that the first charge needs. It sends an UpdateItem
// whose condition always fails, because the item does not exist. The call changes
// nothing, takes one write unit and needs only the permission that a charge needs too.
// Its partition key is random, so instances that start at the same time write to
// different partitions.
func (s *Counters) Connect(ctx context.Context) error {
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.table,
		Key:                 attributeValues{"pk": text("connect#" + rand.Text()), "second": number(0)},
		UpdateExpression:    aws.String("REMOVE expires_at"),
		ConditionExpression: aws.String("attribute_exists(pk)"),
	}, counterOptions(aws.NopRetryer{}))
	var absent *types.ConditionalCheckFailedException
	if err == nil || errors.As(err, &absent) {
		return nil
	}
	return fmt.Errorf("connect to the counters: %w", err)
}

// update returns the UpdateItem that adds the costs to their counters. It leaves out costs
// of 0, which always fit and add nothing. The response contains the counters of these costs
// anyway.
func (s *Counters) update(key ratelimit.Key, costs []ratelimit.Cost) *dynamodb.UpdateItemInput {
	names := map[string]string{"#expires_at": "expires_at"}
	values := attributeValues{":expires_at": number(key.Window.Reset() + int64(counterRetention/time.Second))}
	var add, conditions []string
	for i, c := range costs {
		if c.Amount == 0 {
			continue
		}
		name, amount, room := fmt.Sprintf("#counter%d", i), fmt.Sprintf(":amount%d", i), fmt.Sprintf(":room%d", i)
		names[name] = c.Rule.Counter
		values[amount] = number(c.Amount)
		add = append(add, name+" "+amount)
		if c.Rule.Limit == ratelimit.NoLimit {
			continue
		}
		values[room] = number(c.Rule.Limit - c.Amount)
		conditions = append(conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %[1]s <= %s)", name, room))
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 counterKey(key),
		UpdateExpression:                    aws.String("SET #expires_at = :expires_at"),
		ExpressionAttributeNames:            names,
		ExpressionAttributeValues:           values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if len(add) > 0 {
		*in.UpdateExpression += " ADD " + strings.Join(add, ", ")
	}
	if len(conditions) > 0 {
		in.ConditionExpression = aws.String(strings.Join(conditions, " AND "))
	}
	return in
}

// readCounters returns the counters of an item, by name.
func readCounters(item attributeValues) (map[string]int64, error) {
	counters, r := make(map[string]int64, len(item)), readItem(item)
	for name := range item {
		switch name {
		case "pk", "second", "expires_at":
		default:
			counters[name] = r.number(name)
		}
	}
	return counters, r.err()
}

// counterKey returns the primary key of the item that holds the counters of key.
func counterKey(key ratelimit.Key) attributeValues {
	return attributeValues{
		"pk":     counterPartition(key.Identity, key.Scope, minuteOf(key.Window)),
		"second": number(int64(key.Window)),
	}
}

// counterPartition returns the partition key of the counters of a minute.
func counterPartition(identity string, scope ratelimit.Scope, minute ratelimit.Window) types.AttributeValue {
	return text(fmt.Sprintf("%s#%s#%d", identity, scope, minute))
}

const windowsPerMinute = ratelimit.Window(time.Minute / ratelimit.WindowLength)

// minuteOf returns the first window of the minute that contains w.
func minuteOf(w ratelimit.Window) ratelimit.Window {
	return w - (w%windowsPerMinute+windowsPerMinute)%windowsPerMinute
}
