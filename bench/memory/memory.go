// Package memory measures decisions in memory beside those of other limiters.
package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"sluice/bench/report"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
)

// unlimited is a limit that no run comes near.
const unlimited = 1 << 40

// limiter is one that is measured.
type limiter struct {
	name string
	open func(t *testing.T, limit int64) (take func(key string))
}

var (
	twoRules = limiter{"Sluice, two rules", sluice(ratelimit.Route{Name: "create-event", Class: ratelimit.Import})}
	oneRule  = limiter{"Sluice, one rule", sluice(ratelimit.Route{Name: "usage", Class: ratelimit.General})}

	goLimiter = limiter{"go-limiter", func(t *testing.T, limit int64) func(string) {
		s, err := memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) }) //nolint:errcheck // it is in memory
		ctx := t.Context()
		return func(key string) { s.Take(ctx, key) } //nolint:errcheck // it fails when it is closed
	}}
	throttledLimiter = limiter{"throttled", func(t *testing.T, limit int64) func(string) {
		store, err := throttledstore.NewCtx(0)
		if err != nil {
			t.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(int(min(limit, 1e9))), MaxBurst: int(limit) - 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		return func(key string) { l.RateLimitCtx(ctx, key, 1) } //nolint:errcheck // a store in memory does not fail
	}}
	ulule = limiter{"ulule/limiter", func(t *testing.T, limit int64) func(string) {
		l := ululelimiter.New(memory.NewStore(), ululelimiter.Rate{Period: time.Second, Limit: limit})
		ctx := t.Context()
		return func(key string) { l.Get(ctx, key) } //nolint:errcheck // a store in memory does not fail
	}}
)

func sluice(route ratelimit.Route) func(t *testing.T, limit int64) func(string) {
	return func(t *testing.T, limit int64) func(string) {
		l, err := ratelimit.New(memstore.New(), ratelimit.Config{Limits: ratelimit.Limits{Imports: limit, Requests: limit}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		return func(key string) { l.Charge(ctx, ratelimit.Request{Address: key, Route: route}) } //nolint:errcheck // a store in memory does not fail
	}
}

// Measure measures one rule of each limiter and two of Sluice's. There is no bound:
// a request takes far longer than any of these decisions.
func Measure(t *testing.T) []report.Section {
	s := report.Section{
		Title: "Limiter in memory",
		About: "Nanoseconds per decision, of the whole machine where there are two threads; in brackets allocations. " +
			"Medians of rounds that alternate between the limiters; the ratio is the median over the rounds. Keys are IPv4 addresses that take turns, " +
			"in the order in which they first came or in random order. The peers apply one rule, Sluice applies one and, as for an import, two; " +
			"requests are refused by a limit of 1 a second. Sluice also keeps the counters of the last minute.",
		Header: []string{"Keys", "Order", "Threads", "Outcome", twoRules.name, oneRule.name, goLimiter.name, throttledLimiter.name, ulule.name, "Two rules / fastest peer"},
	}
	for _, keys := range []keys{{1, false}, {10_000, false}, {100_000, false}, {100_000, true}} {
		for _, threads := range []int{1, 2} {
			for _, limit := range []int64{unlimited, 1} {
				outcome := "allowed"
				if limit == 1 {
					outcome = "refused"
				}
				// The last two allocate: the collector's work for them must not fall on the others.
				got := append(compare(t, keys, threads, limit, twoRules, oneRule, goLimiter), compare(t, keys, threads, limit, throttledLimiter, ulule)...)
				ratio := max(got[0].ratio, got[0].ns/min(got[3].ns, got[4].ns)) // of those beside each other, round by round
				row := []string{fmt.Sprint(keys.n), keys.order(), fmt.Sprint(threads), outcome}
				for _, f := range got {
					row = append(row, fmt.Sprintf("%.0f (%.0f)", f.ns, f.allocs))
				}
				s.Rows = append(s.Rows, append(row, report.Number(ratio)))
			}
		}
	}
	return []report.Section{s}
}

// keys are so many, in random order or as they first came.
type keys struct {
	n      int
	random bool
}

func (k keys) order() string {
	if k.random {
		return "random"
	}
	return "in turn"
}

// figure is what a decision takes: medians of the rounds.
type figure struct {
	ns     float64
	allocs float64
	ratio  float64 // to the last limiter compared
}

// compare measures limiters in rounds that alternate between them.
func compare(t *testing.T, keys keys, threads int, limit int64, limiters ...limiter) []figure {
	addresses := make([]string, keys.n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	takes := make([]func(string), len(limiters))
	for i, l := range limiters {
		takes[i] = l.open(t, limit)
		for _, a := range addresses {
			takes[i](a)
		}
	}
	if keys.random {
		rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	}
	runtime.GC()
	const rounds, each = 101, 20_000 // decisions of a thread in a round
	took := make([][]float64, len(limiters))
	for round := range rounds {
		for i, take := range takes {
			start := time.Now()
			var wg sync.WaitGroup
			for thread := range threads {
				at := (round*each + thread*keys.n/threads) % keys.n
				wg.Go(func() {
					for range each {
						take(addresses[at])
						if at++; at == keys.n {
							at = 0
						}
					}
				})
			}
			wg.Wait()
			took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/float64(each*threads))
		}
	}
	figures := make([]figure, len(limiters))
	last := took[len(took)-1]
	for i, take := range takes {
		ratios := make([]float64, rounds)
		for round := range rounds {
			ratios[round] = took[i][round] / last[round]
		}
		allocs := testing.AllocsPerRun(1000, func() { take(addresses[0]) })
		figures[i] = figure{median(took[i]), allocs, median(ratios)}
	}
	return figures
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
