// Package dynamo measures the limiter on DynamoDB Local beside other ways to
// decide two rules there: the bare call that it makes, an update for each rule,
// a transaction, and rate-limiter-flexible's RateLimiterDynamo.
package dynamo

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/bench/report"
	"sluice/pkg/ratelimit"
)

// load is what a contender is to do at once.
type load struct {
	keys, workers, decisions int
	window                   ratelimit.Window // no other load has it, so its items are new
	metered                  bool             // count calls and units; time means nothing then
}

// result is what a load took.
type result struct {
	rate     float64 // decisions a second
	p50, p99 float64 // ms
	cpu      float64 // µs of this process's processor time, per decision
	allocs   float64 // per decision
	calls    float64 // per decision, if metered
	units    float64 // write units per decision, if metered
}

// contender is a way to decide.
type contender struct {
	name    string
	run     func(t *testing.T, l load) result
	prepare func(t *testing.T, l load) decide // of those in this process
}

const (
	fewest   = 8                // pairs of floor and limiter, however long they take
	patience = 25 * time.Second // for the pairs of one number of keys and workers, otherwise
	others   = 5                // every so many pairs the other contenders have their turn
	warm     = 600              // decisions of each contender before any counts
	turns    = 9                // of floor and limiter, for their processor time
	crowded  = 192              // decisions of 32 workers in a row
	metered  = 200              // decisions whose calls and units are counted
)

// Measure runs everything.
func Measure(t *testing.T) []report.Section {
	s := newSubjects(t)
	peer := startPeer(t)
	window := ratelimit.Window(1_800_000_000)
	run := func(c contender, l load) result {
		window++
		l.window = window
		return c.run(t, l)
	}
	all := append(s.contenders(), peer)
	for _, c := range all {
		run(c, load{keys: 100, workers: 8, decisions: warm})
	}

	section := report.Section{
		Title: "The limiter on DynamoDB",
		About: fmt.Sprintf("Two rules a decision, all allowed, on DynamoDB Local in memory. The floor is the limiter's own UpdateItem, "+
			"made beforehand and sent by the SDK. One worker has floor and limiter decide in turns, 32 are the one's or the other's for %d decisions at a time; "+
			"the others have their turn after %d of those pairs. Figures are medians, "+
			"claims medians over the pairs. Calls and units are means of %d decisions of up to %d keys. "+
			"Processor time and allocations are those of this process; %s runs in one of its own (Node.js).", crowded, others, metered, metered/4, peerName),
		Header: []string{"Keys", "Workers", "", "Decisions/s", "p50 ms", "p99 ms", "Of the floor's rate", "Pairs", "Calls", "Write units", "CPU µs", "Allocations"},
	}
	for _, keys := range []int{1, 1000} {
		for _, workers := range []int{1, 32} {
			l := load{keys: keys, workers: workers, decisions: 150}
			if workers > 1 {
				l.decisions = crowded
			}
			pair := func(first, second contender) (a, b result) { return run(first, l), run(second, l) }
			if workers == 1 {
				pair = func(first, second contender) (a, b result) {
					window += 2
					one, other := l, l
					one.window, other.window = window-1, window
					return alternate(t, first.prepare(t, one), second.prepare(t, other), l)
				}
			}
			got, rate, p50, pairs := rounds(all, pair, func(c contender) result { return run(c, l) })
			var own [2][]result
			for range turns {
				for i := range own {
					own[i] = append(own[i], run(all[i], l))
				}
			}
			for i, c := range all {
				r := run(c, l)
				got[i].allocs, got[i].cpu = r.allocs, r.cpu
			}
			for i := range own {
				got[i].cpu = median(own[i], func(r result) float64 { return r.cpu })
			}
			why := fmt.Sprintf("the limiter takes %s µs of this process's processor time a decision, the floor %s µs", report.Number(got[1].cpu), report.Number(got[0].cpu))
			l.metered, l.decisions, l.workers = true, metered, 1
			for i, c := range all {
				l.keys = min(keys, metered/4)
				r := run(c, l)
				got[i].calls, got[i].units = r.calls, r.units
			}
			for i, c := range all {
				r := got[i]
				allocs := report.Number(r.allocs)
				cpu := report.Number(r.cpu)
				if r.allocs == 0 {
					allocs, cpu = "–", "–"
				}
				section.Rows = append(section.Rows, []string{
					fmt.Sprint(keys), fmt.Sprint(workers), c.name, report.Number(r.rate), report.Number(r.p50), report.Number(r.p99),
					report.Number(r.rate / got[0].rate), fmt.Sprint(pairs), report.Number(r.calls), report.Number(r.units), cpu, allocs,
				})
			}
			at := fmt.Sprintf("%d keys, %d workers", keys, workers)
			throughput := report.AtLeast("Throughput of the limiter to the floor's, "+at, rate, 0.97)
			latency := report.AtMost("p50 of the limiter to the floor's, "+at, p50, 1.05)
			throughput.Why, latency.Why = why, why
			section.Claims = append(section.Claims, throughput, latency,
				report.AtMost("Calls an allowed decision of two rules, "+at, got[1].calls, 1),
				report.AtMost("Write units an allowed decision of two rules, "+at, got[1].units, 1))
		}
	}
	return []report.Section{section, s.added(t), s.refusals(t)}
}

// rounds are the medians of each contender, the first two being floor and
// limiter, and those of the limiter's throughput and p50 to the floor's in the
// same round; and how many rounds there were.
func rounds(all []contender, pair func(first, second contender) (a, b result), run func(contender) result) (got []result, rate, p50 float64, pairs int) {
	results := make([][]result, len(all))
	var rates, p50s []float64
	for end := time.Now().Add(patience); pairs < fewest || time.Now().Before(end); pairs++ {
		first := pairs % 2
		a, b := pair(all[first], all[1-first])
		results[first], results[1-first] = append(results[first], a), append(results[1-first], b)
		floor, limiter := results[0][pairs], results[1][pairs]
		rates, p50s = append(rates, limiter.rate/floor.rate), append(p50s, limiter.p50/floor.p50)
		if pairs%others == 0 {
			for i := 2; i < len(all); i++ {
				results[i] = append(results[i], run(all[i]))
			}
		}
	}
	for _, of := range results {
		got = append(got, result{
			rate: median(of, func(r result) float64 { return r.rate }),
			p50:  median(of, func(r result) float64 { return r.p50 }),
			p99:  median(of, func(r result) float64 { return r.p99 }),
		})
	}
	same := func(v float64) float64 { return v }
	return got, median(rates, same), median(p50s, same), pairs
}

func median[T any](of []T, value func(T) float64) float64 {
	var values []float64
	for _, v := range of {
		values = append(values, value(v))
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// timed is the result of decisions that took so long each, and together.
func timed(took []time.Duration, together time.Duration) result {
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	return result{rate: float64(len(took)) / together.Seconds(), p50: at(0.5), p99: at(0.99)}
}
