package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/pkg/ratelimit"
)

func cost(name string, limit, amount int64) ratelimit.Cost {
	return ratelimit.Cost{Rule: ratelimit.Rule{Name: name, Counter: name, Limit: limit}, Amount: amount}
}

type step struct {
	key      ratelimit.Key
	costs    []ratelimit.Cost
	admitted bool
	used     []int64 // nil if not checked
}

var (
	here = ratelimit.Key{Identity: "192.0.2.1", Group: "export", Window: 1_800_000_000}

	otherAddress = ratelimit.Key{Identity: "192.0.2.2", Group: "export", Window: 1_800_000_000}
	otherGroup   = ratelimit.Key{Identity: "192.0.2.1", Group: "import", Window: 1_800_000_000}
	nextWindow   = ratelimit.Key{Identity: "192.0.2.1", Group: "export", Window: 1_800_000_001}
)

// sequences are charges that run in order, each sequence on a store of its own.
var sequences = []struct {
	name  string
	steps []step
}{
	{"fills to the limit and no further", []step{
		{here, []ratelimit.Cost{cost("a", 3, 1)}, true, []int64{1}},
		{here, []ratelimit.Cost{cost("a", 3, 2)}, true, []int64{3}},
		{here, []ratelimit.Cost{cost("a", 3, 1)}, false, []int64{3}},
	}},
	{"takes the whole limit at once", []step{
		{here, []ratelimit.Cost{cost("a", 200, 200)}, true, []int64{200}},
		{here, []ratelimit.Cost{cost("a", 200, 1)}, false, []int64{200}},
	}},
	{"a cost above the limit is refused on a fresh counter", []step{
		{here, []ratelimit.Cost{cost("a", 200, 201)}, false, nil},
		{here, []ratelimit.Cost{cost("a", 200, 200)}, true, []int64{200}},
	}},
	{"a cost above the limit is refused together with one that fits", []step{
		{here, []ratelimit.Cost{cost("a", 200, 1), cost("b", 5, 6)}, false, nil},
		{here, []ratelimit.Cost{cost("a", 200, 1), cost("b", 5, 5)}, true, []int64{1, 5}},
	}},
	{"three costs of 60 leave room for 20 but not for 30", []step{
		{here, []ratelimit.Cost{cost("a", 200, 60)}, true, []int64{60}},
		{here, []ratelimit.Cost{cost("a", 200, 60)}, true, []int64{120}},
		{here, []ratelimit.Cost{cost("a", 200, 60)}, true, []int64{180}},
		{here, []ratelimit.Cost{cost("a", 200, 30)}, false, []int64{180}},
		{here, []ratelimit.Cost{cost("a", 200, 20)}, true, []int64{200}},
	}},
	{"either all rules are charged or none is", []step{
		{here, []ratelimit.Cost{cost("a", 10, 1), cost("b", 2, 1)}, true, []int64{1, 1}},
		{here, []ratelimit.Cost{cost("a", 10, 1), cost("b", 2, 1)}, true, []int64{2, 2}},
		{here, []ratelimit.Cost{cost("a", 10, 1), cost("b", 2, 1)}, false, []int64{2, 2}},
		{here, []ratelimit.Cost{cost("a", 10, 8), cost("c", 2, 1)}, true, []int64{10, 1}},
		{here, []ratelimit.Cost{cost("a", 10, 1), cost("c", 2, 1)}, false, []int64{10, 1}},
		{here, []ratelimit.Cost{cost("c", 2, 1)}, true, []int64{2}},
	}},
	{"a cost of zero passes a full counter and shows it", []step{
		{here, []ratelimit.Cost{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{0, 1}},
		{here, []ratelimit.Cost{cost("a", 5, 5), cost("b", 9, 1)}, true, []int64{5, 2}},
		{here, []ratelimit.Cost{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{5, 3}},
		{here, []ratelimit.Cost{cost("a", 5, 0)}, true, []int64{5}},
	}},
	{"a counter above a lowered limit refuses further costs", []step{
		{here, []ratelimit.Cost{cost("a", 10, 8)}, true, []int64{8}},
		{here, []ratelimit.Cost{cost("a", 5, 1)}, false, []int64{8}},
	}},
	{"a cost of zero passes a counter that is above a lowered limit", []step{
		{here, []ratelimit.Cost{cost("a", 10, 8), cost("b", 9, 1)}, true, []int64{8, 1}},
		{here, []ratelimit.Cost{cost("a", 5, 0), cost("b", 9, 1)}, true, []int64{8, 2}},
	}},
	{"addresses, groups and windows are counted separately", []step{
		{here, []ratelimit.Cost{cost("a", 1, 1)}, true, []int64{1}},
		{otherAddress, []ratelimit.Cost{cost("a", 1, 1)}, true, []int64{1}},
		{otherGroup, []ratelimit.Cost{cost("a", 1, 1)}, true, []int64{1}},
		{nextWindow, []ratelimit.Cost{cost("a", 1, 1)}, true, []int64{1}},
		{here, []ratelimit.Cost{cost("a", 1, 1)}, false, []int64{1}},
	}},
	{"an earlier window still counts after a later one has begun", []step{
		{nextWindow, []ratelimit.Cost{cost("a", 2, 1)}, true, []int64{1}},
		{here, []ratelimit.Cost{cost("a", 2, 2)}, true, []int64{2}},
		{here, []ratelimit.Cost{cost("a", 2, 1)}, false, []int64{2}},
		{nextWindow, []ratelimit.Cost{cost("a", 2, 1)}, true, []int64{2}},
	}},
	{"names that DynamoDB reserves are counters like any other", []step{
		{here, []ratelimit.Cost{cost("count", 1, 1), cost("ttl", 1, 1)}, true, []int64{1, 1}},
		{here, []ratelimit.Cost{cost("count", 1, 1), cost("ttl", 1, 0)}, false, []int64{1, 1}},
	}},
}

// Counters tests a ratelimit.Store. open returns a new store without counters.
func Counters(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	for _, tt := range sequences {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i, st := range tt.steps {
				result, err := s.Charge(t.Context(), st.key, st.costs)
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if unknown := result.Used == nil && st.used == nil && !st.admitted; result.Admitted != st.admitted || len(result.Used) != len(st.costs) && !unknown {
					t.Fatalf("step %d: %+v, want admitted %v", i, result, st.admitted)
				}
				if st.used != nil && !slices.Equal(result.Used, st.used) {
					t.Errorf("step %d: used %v, want %v", i, result.Used, st.used)
				}
			}
		})
	}

	t.Run("concurrent charges admit exactly the limit", func(t *testing.T) { chargeAtOnce(t, open) })

	t.Run("properties", func(t *testing.T) {
		t.Parallel()
		runProperties(t, open)
	})

	t.Run("a cancelled context is an error and charges nothing", func(t *testing.T) { chargeCancelled(t, open) })
}

func chargeAtOnce(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	t.Parallel()
	const workers, each, limit = 16, 40, 200
	for _, size := range []int64{1, 7} {
		t.Run(fmt.Sprintf("cost %d", size), func(t *testing.T) {
			t.Parallel()
			s := open(t)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for range each {
						result, err := s.Charge(t.Context(), here, []ratelimit.Cost{cost("a", limit, size), cost("b", workers*each, 1)})
						if err != nil {
							t.Error(err)
						}
						if result.Admitted {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if want := int64(limit) / size; admitted.Load() != want {
				t.Errorf("admitted %d charges of %d, want %d", admitted.Load(), size, want)
			}
			result, err := s.Charge(t.Context(), here, []ratelimit.Cost{cost("a", limit, 0), cost("b", workers*each, 0)})
			if err != nil {
				t.Fatal(err)
			}
			if want := []int64{admitted.Load() * size, admitted.Load()}; !slices.Equal(result.Used, want) {
				t.Errorf("counters hold %v, want %v after %d admitted charges of %d", result.Used, want, admitted.Load(), size)
			}
		})
	}
}

func chargeCancelled(t *testing.T, open func(t *testing.T) ratelimit.Store) {
	t.Parallel()
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	costs := []ratelimit.Cost{cost("a", 1, 1)}
	if _, err := s.Charge(ctx, here, costs); err == nil {
		t.Error("no error")
	}
	if result, err := s.Charge(t.Context(), here, costs); !result.Admitted || err != nil {
		t.Errorf("the next charge: %+v, error %v", result, err)
	}
}
