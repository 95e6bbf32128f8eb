package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/bench/report"
	"sluice/internal/dynamolocal"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
)

const unlimited = 1_000_000_000 // nothing here comes near

var route = ratelimit.Route{Name: "create-event", Class: ratelimit.Import}

// address is the nth client's.
func address(n int) string { return fmt.Sprintf("10.0.%d.%d", n/250, n%250) }

// request is an import of that client: two rules.
func request(n int) ratelimit.Request {
	return ratelimit.Request{Address: address(n), Route: route}
}

// client is what contenders use of *dynamodb.Client.
type client interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// decide decides a request of the nth client.
type decide func(ctx context.Context, n int) error

// subjects are the contenders in this process, on one table.
type subjects struct {
	dynamodb client
	table    string
}

func newSubjects(t *testing.T) *subjects {
	// Of 32 workers each keeps its connection.
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 })
	return &subjects{
		dynamodb: dynamolocal.Client(t, func(o *dynamodb.Options) { o.HTTPClient = transport }),
		table:    dynamolocal.Table(t, "CountersTable"),
	}
}

func (s *subjects) contenders() []contender {
	return []contender{
		s.contender("floor: its UpdateItem alone", s.floor),
		s.contender("**Limiter**", s.limiter),
		s.contender("an UpdateItem for each rule", s.updates),
		s.contender("TransactWriteItems of two items", s.transaction),
	}
}

// contender runs what prepare has made ready for the keys of a window.
func (s *subjects) contender(name string, prepare func(t *testing.T, c client, w ratelimit.Window, keys int) decide) contender {
	plain := func(t *testing.T, l load) decide { return prepare(t, s.dynamodb, l.window, l.keys) }
	return contender{name: name, prepare: plain, run: func(t *testing.T, l load) result {
		if !l.metered {
			return spend(t, plain(t, l), l)
		}
		m := &meter{client: s.dynamodb}
		spend(t, prepare(t, m, l.window, l.keys), l)
		n := float64(l.decisions)
		return result{calls: float64(m.calls) / n, units: m.units / n}
	}}
}

// spend has l's workers decide.
func spend(t *testing.T, decide decide, l load) result {
	t.Helper()
	ctx := t.Context()
	took := make([]time.Duration, l.decisions)
	var next atomic.Int64
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	spent := processorTime(t)
	start := time.Now()
	for range l.workers {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(took) {
					return
				}
				began := time.Now()
				if err := decide(ctx, n%l.keys); err != nil {
					t.Error(err)
					return
				}
				took[n] = time.Since(began)
			}
		})
	}
	wg.Wait()
	together := time.Since(start)
	spent = processorTime(t) - spent
	runtime.ReadMemStats(&after)
	if t.Failed() {
		t.FailNow()
	}
	r := timed(took, together)
	r.cpu = float64(spent.Nanoseconds()) / 1000 / float64(l.decisions)
	r.allocs = float64(after.Mallocs-before.Mallocs) / float64(l.decisions)
	return r
}

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// alternate has one worker decide by a and b in turns.
func alternate(t *testing.T, a, b decide, l load) (of, ofOther result) {
	t.Helper()
	ctx := t.Context()
	both := [2]decide{a, b}
	var took [2][]time.Duration
	var together [2]time.Duration
	for n := range l.decisions {
		for turn := range both {
			i := (turn + n) % 2
			began := time.Now()
			if err := both[i](ctx, n%l.keys); err != nil {
				t.Fatal(err)
			}
			d := time.Since(began)
			took[i], together[i] = append(took[i], d), together[i]+d
		}
	}
	return timed(took[0], together[0]), timed(took[1], together[1])
}

// newLimiter returns a limiter whose clock stands still in the window.
func newLimiter(t *testing.T, c dynamostore.Client, table string, limits ratelimit.Limits, w ratelimit.Window) *ratelimit.Limiter {
	t.Helper()
	store, err := dynamostore.New(c, table)
	if err != nil {
		t.Fatal(err)
	}
	store.Timeout = time.Minute // on a busy machine the engine takes longer than the two seconds of a deployment
	now := time.Unix(int64(w), 0)
	limiter, err := ratelimit.New(store, ratelimit.Config{Limits: limits, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func noLimits() ratelimit.Limits {
	return ratelimit.Limits{Records: unlimited, Imports: unlimited, Requests: unlimited}
}

var errRefused = errors.New("refused")

func (s *subjects) limiter(t *testing.T, c client, w ratelimit.Window, keys int) decide {
	limiter := newLimiter(t, c, s.table, noLimits(), w)
	requests := make([]ratelimit.Request, keys)
	for n := range requests {
		requests[n] = request(n)
	}
	return func(ctx context.Context, n int) error {
		d, err := limiter.Charge(ctx, requests[n])
		if err == nil && !d.Allowed {
			err = errRefused
		}
		return err
	}
}

// recorder keeps what the limiter would send.
type recorder struct {
	in      *dynamodb.UpdateItemInput
	options []func(*dynamodb.Options)
}

func (r *recorder) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r.in, r.options = in, options
	return &dynamodb.UpdateItemOutput{}, nil
}

// record is what the limiter sends for each client, and with what options.
func (s *subjects) record(t *testing.T, w ratelimit.Window, keys int) (inputs []*dynamodb.UpdateItemInput, options []func(*dynamodb.Options)) {
	var r recorder
	limiter := newLimiter(t, &r, s.table, noLimits(), w)
	for n := range keys {
		if _, err := limiter.Charge(t.Context(), request(n)); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, r.in)
	}
	return inputs, r.options
}

func (s *subjects) floor(t *testing.T, c client, w ratelimit.Window, keys int) decide {
	inputs, options := s.record(t, w, keys)
	return func(ctx context.Context, n int) error {
		_, err := c.UpdateItem(ctx, inputs[n], options...)
		return err
	}
}

// rule is the part of an update that counts one rule in an item of its own.
type rule struct {
	key        map[string]types.AttributeValue
	update     string
	condition  string
	values     map[string]types.AttributeValue
	attributes map[string]string
}

// rules are those of the nth client in the window.
func rules(w ratelimit.Window, n int) [2]rule {
	of := func(name string) rule {
		return rule{
			key:        map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: fmt.Sprintf("%s#%s#%d", address(n), name, w)}},
			update:     "SET #e = :e ADD #n :one",
			condition:  "attribute_not_exists(#n) OR #n <= :room",
			attributes: map[string]string{"#e": "expires_at", "#n": "used"},
			values: map[string]types.AttributeValue{
				":e":    &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(w)+300, 10)},
				":one":  &types.AttributeValueMemberN{Value: "1"},
				":room": &types.AttributeValueMemberN{Value: strconv.Itoa(unlimited - 1)},
			},
		}
	}
	return [2]rule{of("imports"), of("r_create_event")}
}

func (s *subjects) updates(t *testing.T, c client, w ratelimit.Window, keys int) decide {
	_, options := s.record(t, w, 1)
	inputs := make([][2]*dynamodb.UpdateItemInput, keys)
	for n := range inputs {
		for i, r := range rules(w, n) {
			inputs[n][i] = &dynamodb.UpdateItemInput{
				TableName: &s.table, Key: r.key, UpdateExpression: &r.update, ConditionExpression: &r.condition,
				ExpressionAttributeNames: r.attributes, ExpressionAttributeValues: r.values,
				ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			}
		}
	}
	return func(ctx context.Context, n int) error {
		for _, in := range inputs[n] {
			if _, err := c.UpdateItem(ctx, in, options...); err != nil {
				return err
			}
		}
		return nil
	}
}

// transaction repeats what is cancelled for a conflict, as a limiter would have
// to; every try is a call.
func (s *subjects) transaction(t *testing.T, c client, w ratelimit.Window, keys int) decide {
	const tries = 100
	_, options := s.record(t, w, 1)
	items := make([][]types.TransactWriteItem, keys)
	for n := range items {
		for _, r := range rules(w, n) {
			items[n] = append(items[n], types.TransactWriteItem{Update: &types.Update{
				TableName: &s.table, Key: r.key, UpdateExpression: &r.update, ConditionExpression: &r.condition,
				ExpressionAttributeNames: r.attributes, ExpressionAttributeValues: r.values,
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			}})
		}
	}
	return func(ctx context.Context, n int) (err error) {
		for range tries {
			_, err = c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items[n]}, options...)
			var cancelled *types.TransactionCanceledException
			if !errors.As(err, &cancelled) {
				return err
			}
		}
		return err
	}
}

// transactional is how many units DynamoDB takes for one of a write's in a
// transaction, to prepare and to commit it (developer guide, "DynamoDB
// Transactions: how it works"). DynamoDB Local says one.
const transactional = 2

// meter counts calls, and the units that the engine says they consumed. It is
// for one goroutine.
type meter struct {
	client
	calls int
	units float64
}

func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	m.calls++
	asks := *in
	asks.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.UpdateItem(ctx, &asks, options...)
	if err == nil {
		m.units += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
	}
	return out, err
}

func (m *meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	m.calls++
	asks := *in
	asks.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.TransactWriteItems(ctx, &asks, options...)
	if err == nil {
		for _, c := range out.ConsumedCapacity {
			m.units += transactional * aws.ToFloat64(c.CapacityUnits)
		}
	}
	return out, err
}

// added measures what the limiter does beside its call: the client returns at once.
func (s *subjects) added(t *testing.T) report.Section {
	limiter := newLimiter(t, instant{}, s.table, noLimits(), 1_800_000_000)
	r := request(0)
	b := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := limiter.Charge(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	return report.Section{
		Title:  "What the limiter adds to its call",
		About:  "A decision of two rules with a client that returns at once.",
		Header: []string{"µs", "Allocations", "Bytes"},
		Rows:   [][]string{{report.Number(float64(b.NsPerOp()) / 1000), fmt.Sprint(b.AllocsPerOp()), fmt.Sprint(b.AllocedBytesPerOp())}},
	}
}

// instant is a client that returns what DynamoDB does for the first charge of a window.
type instant struct{}

var firstCharge = &dynamodb.UpdateItemOutput{Attributes: map[string]types.AttributeValue{
	"pk":             &types.AttributeValueMemberS{Value: "10.0.0.0#import#1800000000"},
	"imports":        &types.AttributeValueMemberN{Value: "1"},
	"r_create_event": &types.AttributeValueMemberN{Value: "1"},
	"expires_at":     &types.AttributeValueMemberN{Value: "1800000301"},
}}

func (instant) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return firstCharge, nil
}

// refusals measures what a refused request takes once its address is known to
// have used up its limit.
func (s *subjects) refusals(t *testing.T) report.Section {
	section := report.Section{
		Title:  "Refused, once known",
		About:  "Requests of addresses that have used up a limit in this window, to the instance that saw it.",
		Header: []string{"Keys", "ns", "Allocations", "Calls", "Write units"},
	}
	window := ratelimit.Window(1_700_000_000)
	for _, keys := range []int{1, 1000} {
		m := &meter{client: s.dynamodb}
		window++
		limiter := newLimiter(t, m, s.table, ratelimit.Limits{Imports: 1, Requests: unlimited}, window)
		requests := make([]ratelimit.Request, keys)
		for n := range requests {
			requests[n] = request(n)
			if d, err := limiter.Charge(t.Context(), requests[n]); err != nil || !d.Allowed {
				t.Fatalf("the first charge: allowed %v, error %v", d.Allowed, err)
			}
		}
		m.calls, m.units = 0, 0
		decisions := 0
		b := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				decisions++
				if d, err := limiter.Charge(b.Context(), requests[n%keys]); err != nil || d.Allowed {
					b.Fatalf("allowed %v, error %v", d.Allowed, err)
				}
			}
		})
		calls, units := float64(m.calls)/float64(decisions), m.units/float64(decisions)
		section.Rows = append(section.Rows, []string{
			fmt.Sprint(keys), fmt.Sprint(b.NsPerOp()), fmt.Sprint(b.AllocsPerOp()), report.Number(calls), report.Number(units),
		})
		section.Claims = append(section.Claims,
			report.AtMost(fmt.Sprintf("Calls a refused decision, once known, %d keys", keys), calls, 0),
			report.AtMost(fmt.Sprintf("Write units a refused decision, once known, %d keys", keys), units, 0))
	}
	return section
}
