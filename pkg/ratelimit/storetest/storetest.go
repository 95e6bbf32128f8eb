// Package storetest is the suite that every ratelimit.Store passes.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/pkg/ratelimit"
)

// counter is a rule and its cost.
type counter struct {
	ratelimit.Rule
	cost int64
}

// cost is a counter as a step of a test names it.
func cost(name string, limit, cost int64) counter {
	return counter{ratelimit.Rule{Policy: name, Counter: name, Limit: limit}, cost}
}

// charge charges one or two counters; used is in their order.
func charge(ctx context.Context, s ratelimit.Store, key ratelimit.Key, counters ...counter) (used []int64, admitted bool, err error) {
	rules := make([]ratelimit.Rule, len(counters))
	var costs ratelimit.Amounts
	for i, c := range counters {
		rules[i] = c.Rule
		costs.Set(i, c.cost)
	}
	amounts, admitted, err := s.Charge(ctx, key, rules, costs)
	return []int64{amounts.First, amounts.Second}[:len(counters)], admitted, err
}

// step is one charge and what it must lead to.
type step struct {
	key      ratelimit.Key
	counters []counter
	admitted bool
	used     []int64 // nil: not checked
}

var (
	here = ratelimit.Key{Address: "192.0.2.1", Class: ratelimit.Export, Window: 1_800_000_000}

	otherAddress = ratelimit.Key{Address: "192.0.2.2", Class: ratelimit.Export, Window: 1_800_000_000}
	otherClass   = ratelimit.Key{Address: "192.0.2.1", Class: ratelimit.Import, Window: 1_800_000_000}
	nextWindow   = ratelimit.Key{Address: "192.0.2.1", Class: ratelimit.Export, Window: 1_800_000_001}
)

// Run checks that the stores that open returns keep the contract of
// ratelimit.Store. Each call of open must return a store without counters.
func Run(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	tests := []struct {
		name  string
		steps []step
	}{
		{"fills to the limit and no further", []step{
			{here, []counter{cost("a", 3, 1)}, true, []int64{1}},
			{here, []counter{cost("a", 3, 2)}, true, []int64{3}},
			{here, []counter{cost("a", 3, 1)}, false, []int64{3}},
		}},
		{"takes the whole limit at once", []step{
			{here, []counter{cost("a", 200, 200)}, true, []int64{200}},
			{here, []counter{cost("a", 200, 1)}, false, []int64{200}},
		}},
		{"a cost above the limit is refused on a fresh counter", []step{
			{here, []counter{cost("a", 200, 201)}, false, nil},
			{here, []counter{cost("a", 200, 200)}, true, []int64{200}},
		}},
		{"a cost above the limit is refused beside one that fits", []step{
			{here, []counter{cost("a", 200, 1), cost("b", 5, 6)}, false, nil},
			{here, []counter{cost("a", 200, 1), cost("b", 5, 5)}, true, []int64{1, 5}},
		}},
		{"three sixties leave room for twenty, not for thirty", []step{
			{here, []counter{cost("a", 200, 60)}, true, []int64{60}},
			{here, []counter{cost("a", 200, 60)}, true, []int64{120}},
			{here, []counter{cost("a", 200, 60)}, true, []int64{180}},
			{here, []counter{cost("a", 200, 30)}, false, []int64{180}},
			{here, []counter{cost("a", 200, 20)}, true, []int64{200}},
		}},
		{"all rules are charged or none", []step{
			{here, []counter{cost("a", 10, 1), cost("b", 2, 1)}, true, []int64{1, 1}},
			{here, []counter{cost("a", 10, 1), cost("b", 2, 1)}, true, []int64{2, 2}},
			{here, []counter{cost("a", 10, 1), cost("b", 2, 1)}, false, []int64{2, 2}},
			{here, []counter{cost("a", 10, 8), cost("c", 2, 1)}, true, []int64{10, 1}},
			{here, []counter{cost("a", 10, 1), cost("c", 2, 1)}, false, []int64{10, 1}},
			{here, []counter{cost("c", 2, 1)}, true, []int64{2}},
		}},
		{"a cost of zero passes a full counter and shows it", []step{
			{here, []counter{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{0, 1}},
			{here, []counter{cost("a", 5, 5), cost("b", 9, 1)}, true, []int64{5, 2}},
			{here, []counter{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{5, 3}},
			{here, []counter{cost("a", 5, 0)}, true, []int64{5}},
		}},
		{"a limit that was lowered refuses what is already above it", []step{
			{here, []counter{cost("a", 10, 8)}, true, []int64{8}},
			{here, []counter{cost("a", 5, 1)}, false, []int64{8}},
		}},
		{"a cost of zero passes a counter that is above a lowered limit", []step{
			{here, []counter{cost("a", 10, 8), cost("b", 9, 1)}, true, []int64{8, 1}},
			{here, []counter{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{8, 2}},
		}},
		{"addresses, classes and windows are counted apart", []step{
			{here, []counter{cost("a", 1, 1)}, true, []int64{1}},
			{otherAddress, []counter{cost("a", 1, 1)}, true, []int64{1}},
			{otherClass, []counter{cost("a", 1, 1)}, true, []int64{1}},
			{nextWindow, []counter{cost("a", 1, 1)}, true, []int64{1}},
			{here, []counter{cost("a", 1, 1)}, false, []int64{1}},
		}},
		{"an earlier window still counts after a later one began", []step{
			{nextWindow, []counter{cost("a", 2, 1)}, true, []int64{1}},
			{here, []counter{cost("a", 2, 2)}, true, []int64{2}},
			{here, []counter{cost("a", 2, 1)}, false, []int64{2}},
			{nextWindow, []counter{cost("a", 2, 1)}, true, []int64{2}},
		}},
		{"names that DynamoDB reserves are counters like any other", []step{
			{here, []counter{cost("count", 1, 1), cost("ttl", 1, 1)}, true, []int64{1, 1}},
			{here, []counter{cost("count", 1, 1), cost("ttl", 1, 0)}, false, []int64{1, 1}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i, st := range tt.steps {
				used, admitted, err := charge(t.Context(), s, st.key, st.counters...)
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if admitted != st.admitted {
					t.Fatalf("step %d: admitted %v, want %v (used %v)", i, admitted, st.admitted, used)
				}
				for j, want := range st.used {
					if used[j] != want {
						t.Errorf("step %d: used %d of %s, want %d", i, used[j], st.counters[j].Counter, want)
					}
				}
			}
		})
	}

	t.Run("concurrent charges admit exactly the limit", func(t *testing.T) {
		t.Parallel()
		const workers, each, limit = 16, 40, 200
		for _, size := range []int64{1, 7} {
			t.Run(fmt.Sprintf("cost %d", size), func(t *testing.T) {
				t.Parallel()
				s := open(t)
				var admitted, failed atomic.Int64
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for range each {
							_, ok, err := charge(t.Context(), s, here, cost("a", limit, size), cost("b", workers*each, 1))
							if err != nil {
								failed.Add(1)
								t.Error(err)
							} else if ok {
								admitted.Add(1)
							}
						}
					})
				}
				wg.Wait()
				if want := int64(limit) / size; admitted.Load() != want {
					t.Errorf("admitted %d charges of %d, want %d", admitted.Load(), size, want)
				}
				used, _, err := charge(t.Context(), s, here, cost("a", limit, 0), cost("b", workers*each, 0))
				if err != nil {
					t.Fatal(err)
				}
				if used[0] != admitted.Load()*size || used[1] != admitted.Load() {
					t.Errorf("counters hold %d and %d after %d admitted charges of %d", used[0], used[1], admitted.Load(), size)
				}
			})
		}
	})

	t.Run("properties", func(t *testing.T) {
		t.Parallel()
		runProperties(t, open)
	})

	t.Run("a cancelled context is an error and charges nothing", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := charge(ctx, s, here, cost("a", 1, 1)); err == nil {
			t.Error("no error")
		}
		if _, ok, err := charge(t.Context(), s, here, cost("a", 1, 1)); !ok || err != nil {
			t.Errorf("the next charge: admitted %v, error %v", ok, err)
		}
	})
}
