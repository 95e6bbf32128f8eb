package growth

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/bench/report"
	"sluice/internal/dynamolocal"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/memstore"
)

const unlimited = 1_000_000_000

// timeout bounds a charge: on a busy machine the engine takes longer than the two
// seconds of a deployment.
const timeout = 20 * time.Second

var route = ratelimit.Route{Name: "create-event", Class: ratelimit.Import}

// requests are imports of so many clients.
func requests(n int) []ratelimit.Request {
	all := make([]ratelimit.Request, n)
	for i := range all {
		address := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		all[i] = ratelimit.Request{Address: address, Route: route}
	}
	return all
}

// newLimiter returns a limiter whose clock stands still, without limits unless
// some are given.
func newLimiter(t *testing.T, store ratelimit.Store, now time.Time, limits ratelimit.Limits) *ratelimit.Limiter {
	t.Helper()
	if limits == (ratelimit.Limits{}) {
		limits = ratelimit.Limits{Records: unlimited, Imports: unlimited, Requests: unlimited}
	}
	l, err := ratelimit.New(store, ratelimit.Config{Limits: limits, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// charge charges requests in turns, beginning at the one that next says.
func charge(t *testing.T, l *ratelimit.Limiter, all []ratelimit.Request, next *int, n int) time.Duration {
	t.Helper()
	ctx := t.Context()
	began := time.Now()
	for range n {
		d, err := l.Charge(ctx, all[*next])
		if err != nil || !d.Allowed {
			t.Fatalf("allowed %v, error %v", d.Allowed, err)
		}
		if *next++; *next == len(all) {
			*next = 0
		}
	}
	return time.Since(began) / time.Duration(n)
}

// addresses grows the clients that call within one second, each of which has
// called before: over counters in memory, and over DynamoDB Local.
func addresses(t *testing.T) report.Section {
	points := []int{1, 10, 100, 1000, 10_000, 100_000}
	second := time.Unix(1_800_000_000, 0)
	memory, bare := axis{name: "charge, counters in memory", points: points}, axis{name: "a bare Go map, for comparison", points: points}
	limiters, all, next := make([]*ratelimit.Limiter, len(points)), make([][]ratelimit.Request, len(points)), make([]int, len(points))
	maps, bareNext := make([]map[string]*int64, len(points)), make([]int, len(points))
	for i, n := range points {
		limiters[i], all[i], maps[i] = newLimiter(t, memstore.New(), second, ratelimit.Limits{}), requests(n), make(map[string]*int64)
		charge(t, limiters[i], all[i], &next[i], n)
		for _, r := range all[i] {
			maps[i][r.Address] = new(int64)
		}
	}
	memory.slice = func(i int) time.Duration { return charge(t, limiters[i], all[i], &next[i], 20_000) }
	bare.slice = func(i int) time.Duration {
		const lookups = 100_000
		began := time.Now()
		for range lookups {
			*maps[i][all[i][bareNext[i]].Address]++
			if bareNext[i]++; bareNext[i] == len(all[i]) {
				bareNext[i] = 0
			}
		}
		return time.Since(began) / lookups
	}

	shared := axis{name: "charge, DynamoDB Local", points: []int{1, 100, 10_000}}
	store, err := dynamostore.New(dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	store.Timeout = timeout
	overDynamoDB, sharedNext := make([]*ratelimit.Limiter, len(shared.points)), make([]int, len(shared.points))
	for i, n := range shared.points {
		overDynamoDB[i] = newLimiter(t, store, second.Add(time.Duration(i)*time.Second), ratelimit.Limits{})
		concurrently(t, 8, n, func(ctx context.Context, k int) error {
			_, err := overDynamoDB[i].Charge(ctx, all[len(points)-1][k])
			return err
		})
	}
	shared.slice = func(i int) time.Duration {
		return charge(t, overDynamoDB[i], all[len(points)-1][:shared.points[i]], &sharedNext[i], 60)
	}

	m, b, d := memory.measure(25), bare.measure(25), shared.measure(25)
	last := len(points) - 1
	more := func(m measured) string { return report.Number(float64((m.took[last] - m.took[0]).Nanoseconds())) }
	memory.why = fmt.Sprintf("it takes %s ns more, and one lookup in a bare Go map of as many takes %s ns more: what does not fit in the processor's caches comes from memory", more(m), more(b))
	s := report.Section{
		Title:  "Growth: addresses",
		About:  "What one of two rules' charges takes as more clients call in the same second: µs, and in brackets the ratio to one client.",
		Header: header("Addresses", points),
	}
	row, claim := memory.row(m)
	s.Rows, s.Claims = append(s.Rows, row), append(s.Claims, claim)
	row, _ = bare.row(b)
	s.Rows = append(s.Rows, row)
	row, claim = shared.row(d)
	s.Rows, s.Claims = append(s.Rows, []string{row[0], row[1], "", row[2], "", row[3], ""}), append(s.Claims, claim)
	return s
}

// concurrently calls do with every number below n, so many at a time.
func concurrently(t *testing.T, workers, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx := t.Context()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// counted counts the calls of an instance.
type counted struct {
	*dynamodb.Client
	calls *atomic.Int64
}

func (c counted) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.calls.Add(1)
	return c.Client.UpdateItem(ctx, in, options...)
}

// instances grows the limiters that share a table, at 64 requests at once in all.
func instances(t *testing.T) report.Section {
	const atOnce, flood, limit = 64, 6400, 200
	a := axis{name: "charge", points: []int{1, 4, 16, 64}}
	table := dynamolocal.Table(t, "CountersTable")
	var calls atomic.Int64
	stores := make([]ratelimit.Store, atOnce)
	for i := range stores {
		transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = atOnce })
		client := dynamolocal.Client(t, func(o *dynamodb.Options) { o.HTTPClient = transport })
		store, err := dynamostore.New(counted{client, &calls}, table)
		if err != nil {
			t.Fatal(err)
		}
		store.Timeout = timeout
		stores[i] = store
	}
	second := time.Unix(1_800_000_000, 0)
	limiters := func(n int, limits ratelimit.Limits) []*ratelimit.Limiter {
		second = second.Add(time.Second)
		all := make([]*ratelimit.Limiter, n)
		for i := range all {
			all[i] = newLimiter(t, stores[i], second, limits)
		}
		return all
	}
	clients := requests(atOnce)
	decisions := make([]int64, len(a.points))
	callsOf := make([]int64, len(a.points))
	a.slice = func(i int) time.Duration {
		const n = 320
		instances, before := limiters(a.points[i], ratelimit.Limits{}), calls.Load()
		began := time.Now()
		concurrently(t, atOnce, n, func(ctx context.Context, k int) error {
			_, err := instances[k%len(instances)].Charge(ctx, clients[k%len(clients)])
			return err
		})
		took := time.Since(began) / n
		decisions[i], callsOf[i] = decisions[i]+n, callsOf[i]+calls.Load()-before
		return took
	}
	m := a.measure(10)
	row, claim := a.row(m)
	s := report.Section{
		Title: "Growth: instances",
		About: fmt.Sprintf("Limiters that share a table of DynamoDB Local, %d requests at once in all: µs between decisions, in brackets the ratio to one instance. "+
			"In the flood one address sends %d requests in a second, of which %d pass.", atOnce, flood, limit),
		Header: header("Instances", a.points), Rows: [][]string{row}, Claims: []report.Claim{claim},
	}
	perDecision, perFlood := []string{"calls an allowed decision"}, []string{"calls a flood"}
	for i, n := range a.points {
		each := float64(callsOf[i]) / float64(decisions[i])
		instances, before := limiters(n, ratelimit.Limits{Imports: limit, Requests: limit}), calls.Load()
		var passed atomic.Int64
		concurrently(t, n, n, func(ctx context.Context, i int) error { // as Lambda does, each serves one at a time
			for range flood / n {
				d, err := instances[i].Charge(ctx, clients[0])
				if err != nil {
					return err
				}
				if d.Allowed {
					passed.Add(1)
				}
			}
			return nil
		})
		if passed.Load() != limit {
			t.Fatalf("%d of a flood have passed", passed.Load())
		}
		ofFlood := float64(calls.Load() - before)
		perDecision, perFlood = append(perDecision, report.Number(each)), append(perFlood, report.Number(ofFlood))
		s.Claims = append(s.Claims,
			report.AtMost(fmt.Sprintf("Calls an allowed decision, %d instances", n), each, 1),
			report.AtMost(fmt.Sprintf("Calls a flood, %d instances: what passes and one for each", n), ofFlood, float64(limit+n)))
	}
	s.Rows = append(s.Rows, perDecision, perFlood)
	return s
}
