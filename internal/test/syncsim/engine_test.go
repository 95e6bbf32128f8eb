package syncsim_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sluice/pkg/record"
)

type item = map[string]types.AttributeValue

// entry is an item in an index. A read at a time in [from, until) returns it.
type entry struct {
	item        item
	from, until time.Time
}

// engine simulates a DynamoDB with two tables, entities and events, each with the index that
// incremental sync reads. Writes and their responses may get lost, and writes, index updates and
// queries take time.
type engine struct {
	mu      sync.Mutex
	rng     *rand.Rand
	delay   time.Duration                    // most that the index is behind; at most record.MaxIndexDelay
	slow    time.Duration                    // most that a query takes before and after it reads
	tables  map[string]map[string]item       // by table name and id
	indexes map[string][]*entry              // by table name
	applied func(table string, old, it item) // called after each write

	calm      bool   // whether nothing gets lost, and each way takes 2.5 ms
	late      bool   // whether an attempt may arrive after the next one was sent
	attempted func() // called for each attempt to write; may be nil

	reads []read // every query, in order
}

// read says which records a query could not see: the newest stamp that its index had of each.
type read struct {
	table string
	seen  map[string]string // the greatest value of change that the index had, by id
}

// text returns a string attribute, or "" if it is absent.
func text(it item, name string) string {
	s, _ := it[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// number returns a number attribute, or 0 if it is absent.
func number(it item, name string) int {
	n, _ := it[name].(*types.AttributeValueMemberN)
	if n == nil {
		return 0
	}
	value, err := strconv.Atoi(n.Value)
	if err != nil {
		panic(err)
	}
	return value
}

// client returns an SDK client whose calls go to e instead of a network.
func (e *engine) client() *dynamodb.Client {
	type inputKey struct{}
	type beganKey struct{}
	begin := middleware.InitializeMiddlewareFunc("Begin", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		ctx = middleware.WithStackValue(ctx, inputKey{}, in.Parameters)
		return next.HandleInitialize(middleware.WithStackValue(ctx, beganKey{}, time.Now()), in)
	})
	send := middleware.FinalizeMiddlewareFunc("Engine", func(ctx context.Context, _ middleware.FinalizeInput, _ middleware.FinalizeHandler) (out middleware.FinalizeOutput, m middleware.Metadata, err error) {
		out.Result, err = e.call(middleware.GetStackValue(ctx, inputKey{}), middleware.GetStackValue(ctx, beganKey{}).(time.Time))
		return out, dated(ctx), err
	})
	return dynamodb.New(dynamodb.Options{
		Region: "none", BaseEndpoint: aws.String("http://none"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return e.random(0, 2*time.Second), nil })
		}),
		APIOptions: []func(*middleware.Stack) error{func(stack *middleware.Stack) error {
			if err := stack.Finalize.Insert(send, "Retry", middleware.After); err != nil {
				return err
			}
			return stack.Initialize.Add(begin, middleware.Before)
		}},
	})
}

// dated returns the metadata of a response that is sent now.
func dated(ctx context.Context) middleware.Metadata {
	date := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	_, m, _ := awsmiddleware.RecordResponseTiming{}.HandleDeserialize(ctx, middleware.DeserializeInput{}, middleware.DeserializeHandlerFunc(
		func(context.Context, middleware.DeserializeInput) (out middleware.DeserializeOutput, m middleware.Metadata, err error) {
			out.RawResponse = &smithyhttp.Response{Response: &http.Response{Header: date}}
			return out, m, nil
		}))
	return m
}

func (e *engine) random(low, high time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return extreme(e.rng, low, high)
}

// call executes one attempt of an SDK call. began is when the SDK call started.
func (e *engine) call(input any, began time.Time) (any, error) {
	switch in := input.(type) {
	case *dynamodb.UpdateItemInput:
		it, err := e.write(began, func() (item, error) {
			return e.put(*in.TableName, text(in.Key, "id"), in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, func(old item) item {
				it := update(*in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, old)
				maps.Copy(it, in.Key)
				return it
			})
		})
		return &dynamodb.UpdateItemOutput{Attributes: it}, err
	case *dynamodb.PutItemInput:
		_, err := e.write(began, func() (item, error) {
			return e.put(*in.TableName, text(in.Item, "id"), in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, func(item) item { return in.Item })
		})
		return new(dynamodb.PutItemOutput), err
	case *dynamodb.GetItemInput:
		e.mu.Lock()
		defer e.mu.Unlock()
		return &dynamodb.GetItemOutput{Item: maps.Clone(e.tables[*in.TableName][text(in.Key, "id")])}, nil
	case *dynamodb.BatchGetItemInput:
		e.mu.Lock()
		defer e.mu.Unlock()
		found := make(map[string][]item)
		for table, keys := range in.RequestItems {
			for _, key := range keys.Keys {
				if it := e.tables[table][text(key, "id")]; it != nil {
					found[table] = append(found[table], maps.Clone(it))
				}
			}
		}
		return &dynamodb.BatchGetItemOutput{Responses: found}, nil
	case *dynamodb.QueryInput:
		time.Sleep(e.random(0, e.slow))
		out := e.query(in, time.Now())
		time.Sleep(e.random(0, e.slow))
		return out, nil
	}
	panic(fmt.Sprintf("%T is not simulated", input))
}

// write applies a write after a delay. The write or its response may get lost. The error then
// comes within 8 seconds, sometimes just in time for a last retry before WriteTimeout ends.
func (e *engine) write(began time.Time, apply func() (item, error)) (it item, err error) {
	if e.attempted != nil {
		e.mu.Lock()
		e.attempted()
		e.mu.Unlock()
	}
	if e.calm {
		return e.deliver(apply)
	}
	if e.rare() {
		return nil, response(&types.ProvisionedThroughputExceededException{})
	}
	if e.late && e.rare() { // the client gives up before the attempt arrives
		transit := e.random(0, record.MaxTransit)
		go func() {
			time.Sleep(transit)
			e.mu.Lock()
			defer e.mu.Unlock()
			apply() //nolint:errcheck // nobody waits for it
		}()
		time.Sleep(e.random(0, transit))
		return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	}
	time.Sleep(e.random(0, record.MaxTransit))
	if arrives := !e.rare(); arrives {
		e.mu.Lock()
		it, err = apply()
		e.mu.Unlock()
		if !e.rare() {
			return it, err
		}
	}
	last := time.Until(began.Add(record.WriteTimeout)) - time.Millisecond
	switch d := e.random(0, 8*time.Second); {
	case d == 0 && last > 0:
		time.Sleep(last)
	default:
		time.Sleep(d)
	}
	return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
}

// deliver applies a write on a network that is never slow.
func (e *engine) deliver(apply func() (item, error)) (it item, err error) {
	time.Sleep(e.random(oneWay/2, oneWay*3/2))
	e.mu.Lock()
	it, err = apply()
	e.mu.Unlock()
	time.Sleep(e.random(oneWay/2, oneWay*3/2))
	return it, err
}

const oneWay = 2500 * time.Microsecond

// rare returns true in one of ten calls, at random.
func (e *engine) rare() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rng.IntN(10) == 0
}

// response wraps err as the SDK wraps error responses.
func response(err error) error {
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest}}, Err: err}
}

// put stores the changed item and updates the index if the condition is true.
func (e *engine) put(table, id string, condition *string, names map[string]string, values item, change func(old item) item) (item, error) {
	old, now := e.tables[table][id], time.Now()
	if !holds(*condition, names, values, old) {
		return nil, response(&types.ConditionalCheckFailedException{Item: maps.Clone(old)})
	}
	it := change(maps.Clone(old))
	e.tables[table][id] = it
	from := now.Add(extreme(e.rng, 0, e.delay))
	for _, x := range e.indexes[table] {
		switch {
		case text(x.item, "id") != id || !x.until.After(now):
		case text(x.item, "change") == text(it, "change"): // a key has one entry
			x.until = from
		default:
			x.until = now.Add(extreme(e.rng, 0, e.delay))
		}
	}
	e.indexes[table] = append(e.indexes[table], &entry{maps.Clone(it), from, now.AddDate(1, 0, 0)})
	e.applied(table, old, it)
	return maps.Clone(it), nil
}

// query returns a page of an index, which is sorted by the attribute "change".
func (e *engine) query(in *dynamodb.QueryInput, now time.Time) *dynamodb.QueryOutput {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := in.ExpressionAttributeValues
	low, high, after := text(v, ":low"), text(v, ":high"), text(in.ExclusiveStartKey, "change")
	var found []item
	seen := make(map[string]string)
	e.reads = append(e.reads, read{*in.TableName, seen})
	for _, x := range e.indexes[*in.TableName] {
		at := text(x.item, "change")
		if id := text(x.item, "id"); !now.Before(x.from) && now.Before(x.until) {
			seen[id] = max(seen[id], at)
		}
		if text(x.item, "shard") == text(v, ":key") && at >= low && at <= high && at > after && !now.Before(x.from) && now.Before(x.until) {
			found = append(found, x.item)
		}
	}
	slices.SortFunc(found, func(a, b item) int { return strings.Compare(text(a, "change"), text(b, "change")) })
	out := &dynamodb.QueryOutput{Items: found, ScannedCount: int32(len(found))}
	if n := int(*in.Limit); len(found) > n {
		out.Items, out.LastEvaluatedKey, out.ScannedCount = found[:n], found[n-1], int32(n)
	}
	return out
}

// holds evaluates a condition, which must not group terms with parentheses.
func holds(condition string, names map[string]string, values, it item) bool {
	name := func(text string) string {
		if full, ok := names[text]; ok {
			return full
		}
		return text
	}
	return slices.ContainsFunc(strings.Split(condition, " OR "), func(all string) bool {
		return !slices.ContainsFunc(strings.Split(all, " AND "), func(term string) bool {
			if absent, ok := strings.CutPrefix(term, "attribute_not_exists("); ok {
				return it[name(strings.TrimSuffix(absent, ")"))] != nil
			}
			if present, ok := strings.CutPrefix(term, "attribute_exists("); ok {
				return it[name(strings.TrimSuffix(present, ")"))] == nil
			}
			compare := strings.Fields(term)
			if compare[0] == "#revision" {
				return it[name(compare[0])] == nil || number(it, name(compare[0])) != number(values, compare[2])
			}
			got, want := text(it, name(compare[0])), text(values, compare[2])
			switch compare[1] {
			case "<":
				return got == "" || got >= want
			case "=":
				return got == "" || got != want
			}
			return true // events in the simulation never expire
		})
	})
}

var assignment = regexp.MustCompile(`(#\w+) = (if_not_exists\(#\w+, )?(:\w+)`)

func update(expression string, names map[string]string, values, it item) item {
	if it == nil {
		it = make(item)
	}
	expression, add, _ := strings.Cut(expression, " ADD ")
	set, remove, _ := strings.Cut(expression, " REMOVE ")
	for _, a := range assignment.FindAllStringSubmatch(set, -1) {
		if a[2] == "" || it[names[a[1]]] == nil {
			it[names[a[1]]] = values[a[3]]
		}
	}
	for name := range strings.SplitSeq(remove, ", ") {
		delete(it, names[name])
	}
	if name, _, ok := strings.Cut(add, " "); ok { // adds 1, the only number that stores add
		it[names[name]] = &types.AttributeValueMemberN{Value: strconv.Itoa(number(it, names[name]) + 1)}
	}
	return it
}
