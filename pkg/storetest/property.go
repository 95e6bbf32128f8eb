package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"sluice/pkg/ratelimit"
)

// By default, rapid tries 100 sequences (flag -rapid.checks). They are short, so that they
// take only seconds even over a network.
const (
	mostSteps  = 20 // maximum number of charges in a sequence
	mostAtOnce = 12 // maximum number of concurrent charges
)

// runProperties tests random charges. All sequences share a store, so each uses addresses of
// its own. Failure messages leave out the addresses, because rapid compares the messages of
// repeated runs.
func runProperties(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	var sequences atomic.Int64

	t.Run("random charges agree with plain arithmetic", func(t *testing.T) { chargeLikeArithmetic(t, open(t), &sequences) })
	t.Run("concurrent random charges never exceed a limit, are never lost and are refused only if they do not fit", func(t *testing.T) {
		chargeWithoutLoss(t, open(t), &sequences)
	})
}

func chargeLikeArithmetic(t *testing.T, s ratelimit.Store, sequences *atomic.Int64) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sequence, m := sequences.Add(1), make(model)
		for step := range rapid.IntRange(1, mostSteps).Draw(rt, "steps") {
			at := counterKey{
				address: rapid.IntRange(1, 2).Draw(rt, "address"),
				group:   rapid.SampledFrom([]ratelimit.Group{"export", "usage"}).Draw(rt, "group"),
				window:  here.Window + ratelimit.Window(rapid.IntRange(0, 2).Draw(rt, "window")),
			}
			costs := drawCosts(rt, rapid.SampledFrom([]int64{1, 5, 10, 200}))
			want := m.charge(at, costs)
			key := ratelimit.Key{Identity: fmt.Sprintf("192.0.2.%d of %d", at.address, sequence), Group: at.group, Window: at.window}
			got, err := s.Charge(t.Context(), key, costs)
			if err != nil {
				rt.Fatalf("step %d: %v", step, err)
			}
			if got.Admitted != want {
				rt.Fatalf("step %d: admitted %v, want %v: %+v over %v", step, got.Admitted, want, costs, m[at])
			}
			if !got.Admitted && slices.ContainsFunc(costs, neverFits) {
				continue // the store may have refused without reading the counters
			}
			for i, c := range costs {
				if name := c.Rule.Counter; got.Used[i] != m[at][name] {
					rt.Fatalf("step %d: used %d of %s, want %d (admitted %v)", step, got.Used[i], name, m[at][name], got.Admitted)
				}
			}
		}
	})
}

func chargeWithoutLoss(t *testing.T, s ratelimit.Store, sequences *atomic.Int64) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		key := ratelimit.Key{Identity: fmt.Sprintf("192.0.2.3 of %d", sequences.Add(1)), Group: "usage", Window: here.Window}
		limit := rapid.SampledFrom([]int64{1, 5, 10, 200}).Draw(rt, "limit")
		charges := make([][]ratelimit.Cost, rapid.IntRange(2, mostAtOnce).Draw(rt, "charges"))
		for i := range charges {
			charges[i] = drawCosts(rt, rapid.Just(limit))
		}
		results, errs := make([]ratelimit.Result, len(charges)), make([]error, len(charges))
		var wg sync.WaitGroup
		for i := range charges {
			wg.Go(func() { results[i], errs[i] = s.Charge(t.Context(), key, charges[i]) })
		}
		wg.Wait()

		sum := make(map[string]int64)
		for i, costs := range charges {
			if errs[i] != nil {
				rt.Fatalf("charge %d: %v", i, errs[i])
			}
			if results[i].Admitted {
				for _, c := range costs {
					sum[c.Rule.Counter] += c.Amount
				}
			}
		}
		for _, name := range counterNames {
			result, err := s.Charge(t.Context(), key, []ratelimit.Cost{cost(name, limit, 0)})
			if err != nil {
				rt.Fatal(err)
			}
			if used := result.Used[0]; used != sum[name] || used > limit {
				rt.Fatalf("%s is %d, want the sum of the admitted charges, %d, and at most the limit, %d", name, used, sum[name], limit)
			}
		}
		for i, costs := range charges {
			if !results[i].Admitted && !slices.ContainsFunc(costs, func(c ratelimit.Cost) bool { return sum[c.Rule.Counter]+c.Amount > limit }) {
				rt.Fatalf("charge %d, %+v, was refused although it fits even the final counters, %v", i, costs, sum)
			}
		}
	})
}

var counterNames = []string{"records", "imports", "r_list_entity", "r_create_event"}

// drawCosts draws one or two costs. Many of them are just within or just above the limit.
func drawCosts(rt *rapid.T, limits *rapid.Generator[int64]) []ratelimit.Cost {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(counterNames), 1, 2, rapid.ID[string]).Draw(rt, "names")
	slices.Sort(names)
	costs := make([]ratelimit.Cost, len(names))
	for i, name := range names {
		limit := limits.Draw(rt, "limit of "+name)
		amounts := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, limit, limit + 1}), rapid.Int64Range(0, limit))
		costs[i] = cost(name, limit, amounts.Draw(rt, "amount of "+name))
	}
	return costs
}

func neverFits(c ratelimit.Cost) bool { return c.Amount > c.Rule.Limit }

// counterKey is a ratelimit.Key whose address is a number.
type counterKey struct {
	address int
	group   ratelimit.Group
	window  ratelimit.Window
}

// model holds the expected counters.
type model map[counterKey]map[string]int64

// charge does the arithmetic of Store.Charge. An amount of 0 fits even if the limit has been
// lowered below what was used.
func (m model) charge(at counterKey, costs []ratelimit.Cost) (admitted bool) {
	for _, c := range costs {
		if c.Amount > 0 && m[at][c.Rule.Counter]+c.Amount > c.Rule.Limit {
			return false
		}
	}
	if m[at] == nil {
		m[at] = make(map[string]int64)
	}
	for _, c := range costs {
		m[at][c.Rule.Counter] += c.Amount
	}
	return true
}
