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

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Store is a ratelimit.Store. It is safe for concurrent use.
type Store struct {
	client  Client
	table   string
	options []func(*dynamodb.Options) // of a charge
}

// New makes a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("ratelimit dynamostore: a client and a table name are required")
	}
	retryer := newRetryer()
	charge := func(o *dynamodb.Options) { o.Retryer = retryer }
	return &Store{client: client, table: table, options: []func(*dynamodb.Options){charge, ignoreChecksum}}, nil
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

// Charge implements ratelimit.Store with one UpdateItem of one write unit. A
// cost above its limit is refused without a call: the condition below lets an
// absent counter pass whatever is added to it.
func (s *Store) Charge(ctx context.Context, key ratelimit.Key, rules []ratelimit.Rule, cost ratelimit.Amounts) (used ratelimit.Amounts, admitted bool, err error) {
	for i := range rules {
		if cost.At(i) > rules[i].Limit {
			return used, false, nil
		}
	}
	out, err := s.client.UpdateItem(ctx, s.update(key, rules, cost), s.options...)
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		used, err = readUsed(refused.Item, rules)
		return used, false, err
	case err != nil:
		return used, false, fmt.Errorf("update counters: %w", err)
	}
	used, err = readUsed(out.Attributes, rules)
	return used, true, err
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

// update writes the charge as an UpdateItem.
func (s *Store) update(key ratelimit.Key, rules []ratelimit.Rule, cost ratelimit.Amounts) *dynamodb.UpdateItemInput {
	names := make(map[string]string, 1+len(rules))
	values := make(map[string]types.AttributeValue, 1+2*len(rules))
	names["#expires_at"] = "expires_at"
	values[":expires_at"] = number(key.Window.Reset() + int64(retention/time.Second))
	var added uint
	for i := range rules {
		if cost.At(i) == 0 {
			continue // always fits, adds nothing; ALL_NEW and ALL_OLD show its value all the same
		}
		added |= 1 << i
		p := &placeholders[i]
		names[p.name] = rules[i].Counter
		values[p.cost] = number(cost.At(i))
		values[p.room] = number(rules[i].Limit - cost.At(i))
	}
	e := &expressions[added]
	return &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 itemKey(key),
		UpdateExpression:                    &e.update,
		ConditionExpression:                 e.condition,
		ExpressionAttributeNames:            names,
		ExpressionAttributeValues:           values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// placeholder is what stands for a rule's counter in expressions.
type placeholder struct{ name, cost, room string }

// expression is what a charge says but for its names and values.
type expression struct {
	update    string
	condition *string // nil for none
}

// placeholders are those of a charge's rules, and expressions those of all
// charges, by the set of rules that cost something: bit i for rule i.
var placeholders, expressions = func() (p [ratelimit.MaxRules]placeholder, e [1 << ratelimit.MaxRules]expression) {
	for i := range p {
		n := strconv.Itoa(i)
		p[i] = placeholder{name: "#c" + n, cost: ":cost" + n, room: ":room" + n}
	}
	for set := range e {
		var add, condition []string
		for i, c := range p {
			if set&(1<<i) != 0 {
				add = append(add, c.name+" "+c.cost)
				condition = append(condition, "(attribute_not_exists("+c.name+") OR "+c.name+" <= "+c.room+")")
			}
		}
		e[set].update = "SET #expires_at = :expires_at"
		if len(add) > 0 {
			e[set].update += " ADD " + strings.Join(add, ", ")
			e[set].condition = aws.String(strings.Join(condition, " AND "))
		}
	}
	return p, e
}()

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// readUsed reads the rules' counters of an item; an absent attribute is 0.
func readUsed(item map[string]types.AttributeValue, rules []ratelimit.Rule) (used ratelimit.Amounts, err error) {
	for i := range rules {
		name := rules[i].Counter
		switch v := item[name].(type) {
		case nil:
		case *types.AttributeValueMemberN:
			n, err := strconv.ParseInt(v.Value, 10, 64)
			if err != nil {
				return used, fmt.Errorf("read counter %s: %w", name, err)
			}
			used.Set(i, n)
		default:
			return used, fmt.Errorf("read counter %s: it is a %T, not a number", name, v)
		}
	}
	return used, nil
}
