package storetest

import (
	"context"
	"maps"
	"slices"
	"testing"

	"sluice/pkg/ratelimit"
)

// RunUsage tests that a ratelimit.UsageStore returns the counters of what a
// ratelimit.Store was charged. Each call of open must return a pair of stores
// without counters.
func RunUsage(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	charge := func(t *testing.T, s ratelimit.Store, key ratelimit.Key, costs ...ratelimit.Cost) {
		t.Helper()
		if _, err := s.Charge(t.Context(), key, costs); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("counters come back by key and name", func(t *testing.T) {
		t.Parallel()
		s, u := open(t)
		charge(t, s, here, cost("records", 10, 7), cost("r_list_entity", 10, 1))
		charge(t, s, here, cost("records", 10, 2), cost("r_get_entity", 10, 1))
		charge(t, s, here, cost("records", 10, 2), cost("r_get_entity", 10, 1)) // refused
		charge(t, s, otherClass, cost("imports", 10, 1), cost("r_create_event", 10, 1))
		charge(t, s, nextWindow, cost("records", 10, 3), cost("r_list_entity", 10, 1))
		keys := []ratelimit.Key{nextWindow, otherAddress, here, otherClass}
		got, err := u.Used(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		want := []map[string]int64{
			{"records": 3, "r_list_entity": 1},
			nil,
			{"records": 9, "r_list_entity": 1, "r_get_entity": 1},
			{"imports": 1, "r_create_event": 1},
		}
		if !slices.EqualFunc(got, want, maps.Equal) {
			t.Errorf("%v holds %v, want %v", keys, got, want)
		}
	})

	t.Run("a minute of every class is kept and read whole", func(t *testing.T) {
		t.Parallel()
		s, u := open(t)
		last := here.Window + ratelimit.Window(ratelimit.UsageWindows) - 1
		for w := here.Window; w <= last; w++ {
			n := int64(w-here.Window) + 1
			charge(t, s, ratelimit.Key{Address: here.Address, Class: ratelimit.Export, Window: w}, cost("records", 200, 2*n), cost("r_list_event", 200, n))
			charge(t, s, ratelimit.Key{Address: here.Address, Class: ratelimit.Import, Window: w}, cost("imports", 200, 3), cost("r_create_event", 200, 3))
			charge(t, s, ratelimit.Key{Address: here.Address, Class: ratelimit.General, Window: w}, cost("r_not_found", 200, 4))
		}
		usage, err := ratelimit.Usage(t.Context(), u, here.Address, last)
		if err != nil {
			t.Fatal(err)
		}
		if len(usage) != ratelimit.UsageWindows {
			t.Fatalf("%d windows, want %d", len(usage), ratelimit.UsageWindows)
		}
		for i, got := range usage {
			n := int64(i) + 1
			requests := map[string]int64{"list-event": n, "create-event": 3, "not-found": 4}
			if got.Window != here.Window+ratelimit.Window(i) || got.Records != 2*n || got.Imports != 3 || !maps.Equal(got.Requests, requests) {
				t.Errorf("entry %d is %+v", i, got)
			}
		}
	})

	t.Run("an address that made no request has empty counters", func(t *testing.T) {
		t.Parallel()
		_, u := open(t)
		usage, err := ratelimit.Usage(t.Context(), u, "192.0.2.99", here.Window)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range usage {
			if w.Records != 0 || w.Imports != 0 || w.Requests == nil || len(w.Requests) != 0 {
				t.Errorf("%+v", w)
			}
		}
	})

	t.Run("a cancelled context is an error", func(t *testing.T) {
		t.Parallel()
		_, u := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := u.Used(ctx, []ratelimit.Key{here}); err == nil {
			t.Error("no error")
		}
	})
}
