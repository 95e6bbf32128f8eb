package limiter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/dynamo"
	"sluice/pkg/ratelimit"
)

// decider makes n decisions with concurrent workers. A refusal is an error.
type decider func(workers, n int) error

// contender is a way to count requests for two rules in DynamoDB. prepare returns a decider
// whose requests come from each of the clients in turn.
type contender struct {
	impl    string
	prepare func(b *testing.B, client *dynamodb.Client, clients int) decider
}

var (
	bare         = contender{"bare", prepareBare}
	sluice       = contender{"sluice", prepareSluice(byAddress)}
	sluiceKey    = contender{"sluice-key", prepareSluice(byKey)}
	twoUpdates   = contender{"two-updates", prepareTwoUpdates}
	transactions = contender{"transaction", prepareTransaction}
)

// BenchmarkDynamoDB measures decisions with counters in DynamoDB Local. The requests come from
// 1,000 clients and are subject to two rules. The benchmark compares the limiter, which counts by
// address or by API key, with the bare UpdateItem that the limiter would make, one UpdateItem per
// rule, one transaction of two updates, and rate-limiter-flexible in a process of its own.
//
// calls/op and WCU/op come from 100 more decisions, which are not timed. rate-limiter-flexible
// has no WCU/op: each of its calls takes one write unit, but the engine reports none for an
// update whose condition fails.
func BenchmarkDynamoDB(b *testing.B) {
	b.Chdir("../..")
	client := open(b)
	contenders := []contender{bare, sluice, sluiceKey, twoUpdates, transactions, {peerName, startPeer(b).prepare}}
	for _, workers := range []int{1, 32} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("workers=%d/impl=%s", workers, c.impl), func(b *testing.B) {
				decide := c.prepare(b, client, 1000)
				b.ResetTimer()
				// Not b.Loop, because the peer must know the number of decisions in advance.
				if err := decide(workers, b.N); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if workers == 1 {
					meter(b, c)
				}
			})
		}
	}
}

// BenchmarkDynamoDBOfBare reports of-bare: the throughput of the limiter divided by that of
// the bare UpdateItem that the limiter would make, as the median of all iterations. In each
// iteration, the workers make a few decisions with each contender, so that the engine is in the
// same state for both.
func BenchmarkDynamoDBOfBare(b *testing.B) {
	b.Chdir("../..")
	client := open(b)
	for _, clients := range []int{1, 1000} {
		for _, workers := range []int{1, 32} {
			b.Run(fmt.Sprintf("workers=%d/clients=%d", workers, clients), func(b *testing.B) {
				both := [2]decider{bare.prepare(b, client, clients), sluice.prepare(b, client, clients)}
				var shares []float64
				for n := 0; b.Loop(); n++ {
					var took [2]time.Duration
					for turn := range both {
						i := (n + turn) % 2 // each contender goes first in half of the iterations
						start := time.Now()
						if err := both[i](workers, 3*workers); err != nil {
							b.Fatal(err)
						}
						took[i] = time.Since(start)
					}
					shares = append(shares, float64(took[0])/float64(took[1]))
				}
				slices.Sort(shares)
				n := len(shares)
				b.ReportMetric((shares[(n-1)/2]+shares[n/2])/2, "of-bare")
				b.ReportMetric(0, "ns/op") // hides ns/op, which would include both contenders
			})
		}
	}
}

// BenchmarkDynamoDBKnownRefusal measures a refusal when the limiter already knows that the
// client has exhausted its limit in this second.
func BenchmarkDynamoDBKnownRefusal(b *testing.B) {
	b.Chdir("../..")
	proxy := dynamoproxy.Start(b, dynamolocal.Endpoint(b))
	store := newStore(b, newClient(b, proxy.URL), dynamolocal.Table(b, "CountersTable"))
	l := newLimiter(b, store, 1, 1, stopped())
	c := byAddress(1)[0]
	if d, err := l.charge(b.Context(), c); err != nil || !d.Allowed {
		b.Fatalf("the first request: allowed %v, error %v", d.Allowed, err)
	}
	calls, units := consumed(proxy)
	b.ReportAllocs()
	for b.Loop() {
		if d, err := l.charge(b.Context(), c); err != nil || d.Allowed {
			b.Fatalf("allowed %v, error %v", d.Allowed, err)
		}
	}
	callsAfter, unitsAfter := consumed(proxy)
	b.ReportMetric((callsAfter-calls)/float64(b.N), "calls/op")
	b.ReportMetric((unitsAfter-units)/float64(b.N), "WCU/op")
}

// open warms up the engine when it is first called, because a Java process is slower at first.
func open(b *testing.B) *dynamodb.Client {
	b.Helper()
	client := newClient(b, dynamolocal.Endpoint(b))
	warmUp.Do(func() {
		if err := bare.prepare(b, client, 1000)(32, 2000); err != nil {
			b.Fatal(err)
		}
	})
	return client
}

var warmUp sync.Once

// newClient lets clients keep 64 idle connections, not the SDK's default of 10, for 32 workers.
func newClient(b *testing.B, endpoint string) *dynamodb.Client {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 })
	return dynamolocal.Client(b, func(o *dynamodb.Options) { o.HTTPClient, o.BaseEndpoint = transport, &endpoint })
}

// newStore sets a long timeout, because the engine may be busy.
func newStore(b *testing.B, client dynamo.CountersClient, table string) *dynamo.Counters {
	b.Helper()
	store, err := dynamo.NewCounters(client, table)
	if err != nil {
		b.Fatal(err)
	}
	store.Timeout = time.Minute
	return store
}

// stopped returns a clock that stands still, so that all requests fall into the same second.
func stopped() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// meter reports the calls and write units per decision.
func meter(b *testing.B, c contender) {
	const decisions = 100
	proxy := dynamoproxy.Start(b, dynamolocal.Endpoint(b))
	if err := c.prepare(b, newClient(b, proxy.URL), 50)(1, decisions); err != nil {
		b.Fatal(err)
	}
	calls, units := consumed(proxy)
	b.ReportMetric(calls/decisions, "calls/op")
	if c.impl != peerName {
		b.ReportMetric(units/decisions, "WCU/op")
	}
}

// consumed returns the number of calls through a proxy and the write units that they consumed.
// A write in a transaction takes two units: one to prepare it and one to commit it (DynamoDB
// Developer Guide, "Amazon DynamoDB Transactions: How it works"). DynamoDB Local reports only
// one unit.
func consumed(p *dynamoproxy.Proxy) (calls, units float64) {
	for call, usage := range p.Usage() {
		switch call.Operation {
		case "UpdateItem":
			units += usage.Units
		case "TransactWriteItems":
			units += 2 * usage.Units
		default:
			continue
		}
		calls += float64(usage.Calls)
	}
	return calls, units
}

// workers returns a decider that calls decide with the number of each client in turn.
func workers(b *testing.B, clients int, decide func(ctx context.Context, n int) error) decider {
	return func(workers, n int) error {
		group, ctx := errgroup.WithContext(b.Context())
		var next atomic.Int64
		for range workers {
			group.Go(func() error {
				for {
					i := int(next.Add(1)) - 1
					if i >= n {
						return nil
					}
					if err := decide(ctx, i%clients); err != nil {
						return err
					}
				}
			})
		}
		return group.Wait()
	}
}

func prepareSluice(callers func(clients int) []caller) func(*testing.B, *dynamodb.Client, int) decider {
	return func(b *testing.B, client *dynamodb.Client, clients int) decider {
		l := newLimiter(b, newStore(b, client, dynamolocal.Table(b, "CountersTable")), clients, highest, clock(clients))
		callers := callers(clients)
		return workers(b, clients, func(ctx context.Context, n int) error {
			d, err := l.charge(ctx, callers[n])
			return allowed(d.Allowed, err)
		})
	}
}

// recorder keeps a store's last call instead of sending it.
type recorder struct {
	in      *dynamodb.UpdateItemInput
	options []func(*dynamodb.Options)
}

func (r *recorder) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r.in, r.options = in, options
	return &dynamodb.UpdateItemOutput{}, nil
}

func prepareBare(b *testing.B, client *dynamodb.Client, clients int) decider {
	var sent recorder
	store, both := newStore(b, &sent, dynamolocal.Table(b, "CountersTable")), rules()
	inputs := make([]*dynamodb.UpdateItemInput, clients)
	for n := range inputs {
		if _, err := store.Charge(b.Context(), both[0].key(n), slices.Concat(both[0].cost, both[1].cost)); err != nil {
			b.Fatal(err)
		}
		inputs[n] = sent.in
	}
	return workers(b, clients, func(ctx context.Context, n int) error {
		_, err := client.UpdateItem(ctx, inputs[n], sent.options...)
		return err
	})
}

// rule is one of the two rules that apply to an import. Each rule has its own counter.
type rule struct {
	key  func(n int) ratelimit.Key
	cost []ratelimit.Cost
}

func rules() [2]rule {
	window := ratelimit.WindowAt(time.Now())
	one := func(name, counter string) rule {
		return rule{
			key: func(n int) ratelimit.Key {
				return ratelimit.Key{Identity: address(n), Group: ratelimit.Group(name), Window: window}
			},
			cost: []ratelimit.Cost{{Rule: ratelimit.Rule{Name: name, Counter: counter, Limit: unlimited}, Amount: 1}},
		}
	}
	return [2]rule{one(ratelimit.RuleImports, "imports"), one(ratelimit.RuleRequests, "r_create_event")}
}

func prepareTwoUpdates(b *testing.B, client *dynamodb.Client, clients int) decider {
	store, both := newStore(b, client, dynamolocal.Table(b, "CountersTable")), rules()
	return workers(b, clients, func(ctx context.Context, n int) error {
		for _, r := range both {
			result, err := store.Charge(ctx, r.key(n), r.cost)
			if err := allowed(result.Admitted, err); err != nil {
				return err
			}
		}
		return nil
	})
}

func prepareTransaction(b *testing.B, client *dynamodb.Client, clients int) decider {
	var sent recorder
	store := newStore(b, &sent, dynamolocal.Table(b, "CountersTable"))
	items := make([][]types.TransactWriteItem, clients)
	for n := range items {
		for _, r := range rules() {
			if _, err := store.Charge(b.Context(), r.key(n), r.cost); err != nil {
				b.Fatal(err)
			}
			items[n] = append(items[n], types.TransactWriteItem{Update: &types.Update{
				TableName: sent.in.TableName, Key: sent.in.Key, UpdateExpression: sent.in.UpdateExpression, ConditionExpression: sent.in.ConditionExpression,
				ExpressionAttributeNames: sent.in.ExpressionAttributeNames, ExpressionAttributeValues: sent.in.ExpressionAttributeValues,
			}})
		}
	}
	return workers(b, clients, func(ctx context.Context, n int) error {
		_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items[n]})
		return err
	})
}
