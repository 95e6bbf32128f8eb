package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"sluice/pkg/ratelimit"
)

// The sequences are short, so that a store behind a network takes seconds for
// the hundred that rapid tries: -rapid.checks changes how many.
const (
	mostSteps  = 20 // charges of a sequence that runs one after the other
	mostAtOnce = 12 // charges that run at once
)

// runProperties checks the contract over random charges. The stores keep their
// counters from one sequence to the next; each sequence has addresses of its
// own instead, which are left out of messages so that rapid can compare them.
func runProperties(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	var sequences atomic.Int64

	t.Run("random charges agree with plain arithmetic", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		rapid.Check(t, func(rt *rapid.T) {
			sequence, m := sequences.Add(1), make(model)
			for step := range rapid.IntRange(1, mostSteps).Draw(rt, "steps") {
				at := place{
					address: rapid.IntRange(1, 2).Draw(rt, "address"),
					class:   rapid.SampledFrom([]ratelimit.Class{ratelimit.Export, ratelimit.Import}).Draw(rt, "class"),
					window:  here.Window + ratelimit.Window(rapid.IntRange(0, 2).Draw(rt, "window")),
				}
				counters := drawCounters(rt, rapid.SampledFrom([]int64{1, 5, 10, 200}))
				want := m.charge(at, counters)
				key := ratelimit.Key{Address: fmt.Sprintf("192.0.2.%d of %d", at.address, sequence), Class: at.class, Window: at.window}
				got, admitted, err := charge(t.Context(), s, key, counters...)
				if err != nil {
					rt.Fatalf("step %d: %v", step, err)
				}
				if admitted != want {
					rt.Fatalf("step %d: admitted %v, want %v: %+v over %v", step, admitted, want, counters, m[at])
				}
				if !admitted && slices.ContainsFunc(counters, neverFits) {
					continue // the store need not have looked at what is used
				}
				for i, c := range counters {
					if got[i] != m[at][c.Counter] {
						rt.Fatalf("step %d: used %d of %s, want %d (admitted %v)", step, got[i], c.Counter, m[at][c.Counter], admitted)
					}
				}
			}
		})
	})

	t.Run("random charges at once never exceed a limit, are never lost and leave no refused one room", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		rapid.Check(t, func(rt *rapid.T) {
			key := ratelimit.Key{Address: fmt.Sprintf("192.0.2.3 of %d", sequences.Add(1)), Class: ratelimit.General, Window: here.Window}
			limit := rapid.SampledFrom([]int64{1, 5, 10, 200}).Draw(rt, "limit")
			charges := make([][]counter, rapid.IntRange(2, mostAtOnce).Draw(rt, "charges"))
			for i := range charges {
				charges[i] = drawCounters(rt, rapid.Just(limit))
			}
			admitted, errs := make([]bool, len(charges)), make([]error, len(charges))
			var wg sync.WaitGroup
			for i := range charges {
				wg.Go(func() { _, admitted[i], errs[i] = charge(t.Context(), s, key, charges[i]...) })
			}
			wg.Wait()

			sum := make(map[string]int64)
			for i, counters := range charges {
				if errs[i] != nil {
					rt.Fatalf("charge %d: %v", i, errs[i])
				}
				if admitted[i] {
					for _, c := range counters {
						sum[c.Counter] += c.cost
					}
				}
			}
			for _, name := range counterNames {
				left, _, err := charge(t.Context(), s, key, cost(name, limit, 0))
				if err != nil {
					rt.Fatal(err)
				}
				if used := left[0]; used != sum[name] || used > limit {
					rt.Fatalf("%s holds %d after admitted charges of %d, its limit is %d", name, used, sum[name], limit)
				}
			}
			for i, counters := range charges {
				if !admitted[i] && !slices.ContainsFunc(counters, func(c counter) bool { return sum[c.Counter]+c.cost > limit }) {
					rt.Fatalf("charge %d, %+v, was refused but fits even what is used in the end, %v", i, counters, sum)
				}
			}
		})
	})
}

var counterNames = []string{"records", "imports", "r_list_entity", "r_create_event"}

// drawCounters draws the counters of one charge: one or two, often with a
// cost at an edge.
func drawCounters(rt *rapid.T, limits *rapid.Generator[int64]) []counter {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(counterNames), 1, 2, rapid.ID[string]).Draw(rt, "names")
	counters := make([]counter, len(names))
	for i, name := range names {
		limit := limits.Draw(rt, "limit of "+name)
		costs := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, limit, limit + 1}), rapid.Int64Range(0, limit))
		counters[i] = cost(name, limit, costs.Draw(rt, "cost of "+name))
	}
	slices.SortFunc(counters, func(a, b counter) int { return cmp.Compare(a.Counter, b.Counter) })
	return counters
}

func neverFits(c counter) bool { return c.cost > c.Limit }

// place is a ratelimit.Key whose address is a number.
type place struct {
	address int
	class   ratelimit.Class
	window  ratelimit.Window
}

// model is what the counters hold.
type model map[place]map[string]int64

// charge is Store.Charge in plain arithmetic. A cost of 0 passes also over a
// counter that is above a lowered limit: it takes nothing of what is left.
func (m model) charge(at place, counters []counter) (admitted bool) {
	for _, c := range counters {
		if c.cost > 0 && m[at][c.Counter]+c.cost > c.Limit {
			return false
		}
	}
	if m[at] == nil {
		m[at] = make(map[string]int64)
	}
	for _, c := range counters {
		m[at][c.Counter] += c.cost
	}
	return true
}
