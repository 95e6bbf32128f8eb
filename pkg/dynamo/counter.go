package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awsratelimit "github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sluice/pkg/ratelimit"
)

// counterRetention is how long an item is kept after its window. ratelimit.Usage needs the
// last minute.
const counterRetention = 5 * time.Minute

// CountersClient is the part of *dynamodb.Client that Counters uses.
type CountersClient interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Counters is a ratelimit.Store in a table that any number of processes can share. It is safe
// for concurrent use.
//
// The counters of a key are in its ledger (ledger.go). Of an address, an item holds the counters of one
// ratelimit.Key:
//
//	pk          S  partition key: identity#group#minute, with the minute's start as Unix time
//	second      N  sort key: the window, as Unix time
//	records, imports, r_list_entity, …
//	            N  the counters
//	expires_at  N  when the item may be deleted, as Unix time; the table's TTL attribute
//
// With the minute in the partition key, one Query reads all windows of a group and minute.
// Each window has its own item, so counts do not depend on when old items are deleted.
//
// A charge is one UpdateItem that adds all costs, on the condition that all of them fit.
// DynamoDB serializes the updates of an item and applies each update in full or not at all, so
// concurrent processes never exceed a limit. A transaction would take twice the write units,
// and fail if it conflicted with another charge. A read followed by a write would race.
type Counters struct {
	// Timeout is the longest that a charge may take; 2 seconds by default. Set it before the
	// first charge.
	Timeout time.Duration

	// FloorFault is called when the floor of a ledger was corrected; it may be nil.
	FloorFault func(ctx context.Context, identity string, was, now ratelimit.Window)

	client  CountersClient
	table   string
	retryer aws.Retryer // for charges
	ledgers ledgers
	clock   ledgerClock
	now     func() time.Time
	dateOf  func(*dynamodb.UpdateItemOutput, error) time.Time // the Date of a response
}

// NewCounters fails if client is nil or the table name is empty.
func NewCounters(client CountersClient, table string) (*Counters, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Counters{Timeout: 2 * time.Second, client: client, table: table, retryer: newRetryer(), now: time.Now, dateOf: dateOf}, nil
}

// counterOptions turns off the validation of response checksums, because TLS protects the
// responses. The validation would log a warning for every charge refused by DynamoDB Local,
// whose errors have no checksum.
func counterOptions(retryer aws.Retryer) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = retryer
		o.DisableValidateResponseChecksum = true
	}
}

// newRetryer allows one retry of a charge, but only if the charge was certainly not applied,
// because DynamoDB throttled it or no connection was opened. The SDK's default retryer also
// retries charges that may have been applied, and so may count them twice.
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

// dateOf returns the Date of a response, in whole seconds; the zero time if there was no response.
func dateOf(out *dynamodb.UpdateItemOutput, err error) (date time.Time) {
	if err == nil {
		date, _ = awsmiddleware.GetServerTime(out.ResultMetadata)
	} else if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		date, _ = http.ParseTime(response.Response.Header.Get("Date"))
	}
	return date
}

func notConnected(err error) aws.Ternary {
	var op *net.OpError
	return aws.BoolTernary(errors.As(err, &op) && op.Op == "dial")
}

// Charge implements ratelimit.Store with one UpdateItem, which takes one write unit. If an
// amount exceeds its rule's limit, Charge refuses it without a call, because the condition
// would admit any amount to a counter that does not exist yet.
func (s *Counters) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	for _, c := range costs {
		if c.Amount > c.Rule.Limit {
			return ratelimit.Result{Window: s.Place(key)}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if _, ok := ratelimit.KeyID(key.Identity); ok {
		return s.chargeKey(ctx, key, costs)
	}
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

// Connect opens a connection for the first charge. It sends an UpdateItem that changes nothing,
// because its condition is false: the item does not exist. The call takes one write unit and
// needs the same permission as a charge. Its partition key is random, so that instances that
// start at the same time do not all write to one partition.
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

// update leaves out costs of 0, which always fit. The response contains their counters anyway.
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

func counterKey(key ratelimit.Key) attributeValues {
	return attributeValues{
		"pk":     counterPartition(key.Identity, key.Group, minuteOf(key.Window)),
		"second": number(int64(key.Window)),
	}
}

func counterPartition(identity string, group ratelimit.Group, minute ratelimit.Window) types.AttributeValue {
	return text(fmt.Sprintf("%s#%s#%d", identity, group, minute))
}

const windowsPerMinute = ratelimit.Window(time.Minute / ratelimit.WindowLength)

// minuteOf returns the first window of the minute that contains w.
func minuteOf(w ratelimit.Window) ratelimit.Window {
	return w - (w%windowsPerMinute+windowsPerMinute)%windowsPerMinute
}
