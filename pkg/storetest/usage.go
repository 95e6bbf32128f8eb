package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/pkg/ratelimit"
)

var (
	exportRoutes = []ratelimit.Route{{Name: "list-entity", Class: ratelimit.Export}, {Name: "get-entity", Class: ratelimit.Export}, {Name: "list-event", Class: ratelimit.Export}}
	importRoutes = []ratelimit.Route{{Name: "create-event", Class: ratelimit.Import}, {Name: "create-entity", Class: ratelimit.Import}}
	usageRoutes  = slices.Concat(exportRoutes, importRoutes, []ratelimit.Route{{Name: "not-found", Class: ratelimit.General}})
)

// Usage tests a ratelimit.UsageStore. open returns an empty Store, and the UsageStore that
// reads its counters.
func Usage(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Run("counters are returned by window and name", func(t *testing.T) { usageByWindow(t, open) })

	for _, offset := range []ratelimit.Window{0, 1, 59} {
		t.Run(fmt.Sprintf("a whole minute of every group is kept and returned, from second %d", offset), func(t *testing.T) {
			t.Parallel()
			s, u := open(t)
			first := here.Window + offset
			last := first + ratelimit.Window(ratelimit.UsageWindows) - 1
			for w := first; w <= last; w++ {
				n := int64(w-first) + 1
				charge(t, s, ratelimit.Key{Identity: here.Identity, Group: "export", Window: w}, cost("records", 200, 2*n), cost("r_list_event", 200, n))
				charge(t, s, ratelimit.Key{Identity: here.Identity, Group: "import", Window: w}, cost("imports", 200, 3), cost("r_create_event", 200, 3))
				charge(t, s, ratelimit.Key{Identity: here.Identity, Group: "not-found", Window: w}, cost("r_not_found", 200, 4))
			}
			use, err := ratelimit.Usage(t.Context(), u, here.Identity, usageRoutes, last)
			usage := use.Seconds
			if err != nil {
				t.Fatal(err)
			}
			if len(usage) != ratelimit.UsageWindows {
				t.Fatalf("%d windows, want %d", len(usage), ratelimit.UsageWindows)
			}
			for i, got := range usage {
				n := int64(i) + 1
				requests := map[string]int64{"list-event": n, "create-event": 3, "not-found": 4}
				if got.Window != first+ratelimit.Window(i) || got.Records != 2*n || got.Imports != 3 || !maps.Equal(got.Requests, requests) {
					t.Errorf("entry %d is %+v", i, got)
				}
			}
		})
	}

	t.Run("a key has sums of the day and the month", func(t *testing.T) { usageOfKey(t, open) })

	t.Run("several keys have sums of a day and a month", func(t *testing.T) { sumsOfKeys(t, open) })

	t.Run("an address that made no request has empty counters", func(t *testing.T) { usageOfNobody(t, open) })

	t.Run("a cancelled context is an error", func(t *testing.T) { usageCancelled(t, open) })
}

func usageByWindow(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Parallel()
	s, u := open(t)
	charge(t, s, here, cost("records", 10, 7), cost("r_list_entity", 10, 1))
	charge(t, s, here, cost("records", 10, 2), cost("r_get_entity", 10, 1))
	charge(t, s, here, cost("records", 10, 2), cost("r_get_entity", 10, 1)) // refused
	charge(t, s, otherGroup, cost("imports", 10, 1), cost("r_create_event", 10, 1))
	charge(t, s, otherAddress, cost("records", 10, 1), cost("r_get_event", 10, 1))
	charge(t, s, nextWindow, cost("records", 10, 3), cost("r_list_entity", 10, 1))
	for _, tt := range []struct {
		routes []ratelimit.Route
		last   ratelimit.Window
		want   []map[string]int64 // counters of the last two windows
	}{
		{usageRoutes, nextWindow.Window, []map[string]int64{
			{"records": 9, "r_list_entity": 1, "r_get_entity": 1, "imports": 1, "r_create_event": 1}, {"records": 3, "r_list_entity": 1}}},
		{importRoutes, nextWindow.Window, []map[string]int64{{"imports": 1, "r_create_event": 1}, nil}},
		{exportRoutes, here.Window, []map[string]int64{nil, {"records": 9, "r_list_entity": 1, "r_get_entity": 1}}},
		{nil, here.Window, []map[string]int64{nil, nil}},
	} {
		used, err := u.Used(t.Context(), here.Identity, tt.routes, tt.last)
		got := used.Seconds
		if err != nil || len(got) != ratelimit.UsageWindows {
			t.Fatalf("%d windows, error %v", len(got), err)
		}
		if got := got[len(got)-2:]; !slices.EqualFunc(got, tt.want, maps.Equal) {
			t.Errorf("%v up to %d: %v, want %v", tt.routes, tt.last, got, tt.want)
		}
		if !slices.EqualFunc(got[:len(got)-2], make([]map[string]int64, len(got)-2), maps.Equal) {
			t.Errorf("%v up to %d: earlier windows hold %v", tt.routes, tt.last, got)
		}
	}
}

// usageOfKey charges in seconds around the end of a month, by the store's time or close to it.
func usageOfKey(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Parallel()
	s, u := open(t)
	const identity = "key:7m3kq2xw9abc"
	last := ratelimit.WindowAt(time.Now())
	sums := func(rule string, w ratelimit.Window, n int64) {
		group, route := ratelimit.Group("export"), "r_list_entity"
		if rule == "imports" {
			group, route = "import", "r_create_event"
		}
		of := func(p ratelimit.Period) ratelimit.Cost {
			return ratelimit.Cost{Rule: ratelimit.Rule{Name: rule, Counter: rule, Period: p, Limit: ratelimit.NoLimit}, Amount: n}
		}
		charge(t, s, ratelimit.Key{Identity: identity, Group: group, Window: w}, cost(rule, 100, n), cost(route, 100, 1), of(ratelimit.Day), of(ratelimit.Month))
	}
	sums("records", last-1, 7)
	sums("records", last, 5)
	sums("imports", last, 1)
	got, err := ratelimit.Usage(t.Context(), u, identity, usageRoutes, last)
	if err != nil {
		t.Fatal(err)
	}
	records := map[ratelimit.Window]int64{}
	for _, w := range got.Seconds {
		records[w.Window] = w.Records
	}
	if n := got.Seconds[len(got.Seconds)-1]; records[last-1] != 7 || n.Window != last || n.Records != 5 || n.Imports != 1 || !maps.Equal(n.Requests, map[string]int64{"list-entity": 1, "create-event": 1}) {
		t.Errorf("seconds up to %d: %+v", last, got.Seconds)
	}
	for name, tt := range map[string]struct {
		got *ratelimit.PeriodUsage
		p   ratelimit.Period
	}{"day": {got.Day, ratelimit.Day}, "month": {got.Month, ratelimit.Month}} {
		want := ratelimit.PeriodUsage{Start: tt.p.Start(last), Records: 12, Imports: 1}
		if tt.p.Start(last) != tt.p.Start(last-1) { // the test runs at midnight
			want.Records = 5
		}
		if tt.got == nil || *tt.got != want {
			t.Errorf("%s: %+v, want %+v", name, tt.got, want)
		}
	}
	if nobody, err := ratelimit.Usage(t.Context(), u, "key:aaaaaaaaaaaa", usageRoutes, last); err != nil || len(nobody.Seconds) != 1 || nobody.Day.Records != 0 {
		t.Errorf("a key that made no request: %+v, error %v", nobody, err)
	}
}

func sumsOfKeys(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Parallel()
	s, u := open(t)
	now := ratelimit.WindowAt(time.Now())
	sum := func(identity string, group ratelimit.Group, rule string, n int64, periods ...ratelimit.Period) {
		var costs []ratelimit.Cost
		for _, p := range periods {
			costs = append(costs, ratelimit.Cost{Rule: ratelimit.Rule{Name: rule, Counter: rule, Period: p, Limit: ratelimit.NoLimit}, Amount: n})
		}
		charge(t, s, ratelimit.Key{Identity: identity, Group: group, Window: now}, costs...)
	}
	sum("key:aaaaaaaaaaaa", "export", "records", 7, ratelimit.Day, ratelimit.Month)
	sum("key:aaaaaaaaaaaa", "import", "imports", 2, ratelimit.Day, ratelimit.Month)
	sum("key:bbbbbbbbbbbb", "import", "imports", 5, ratelimit.Month)
	sum("key:cccccccccccc", "export", "records", 9, ratelimit.Day, ratelimit.Month)
	keys := []string{"key:aaaaaaaaaaaa", "key:bbbbbbbbbbbb", "key:dddddddddddd"}
	day, month := ratelimit.Day.Start(now), ratelimit.Month.Start(now)
	for p, want := range map[ratelimit.Period]map[string]ratelimit.PeriodUsage{
		ratelimit.Day:   {"key:aaaaaaaaaaaa": {Start: day, Records: 7, Imports: 2}},
		ratelimit.Month: {"key:aaaaaaaaaaaa": {Start: month, Records: 7, Imports: 2}, "key:bbbbbbbbbbbb": {Start: month, Imports: 5}},
	} {
		if got, err := u.Sums(t.Context(), keys, p, now); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, error %v, want %v", p, got, err, want)
		}
		if got, err := u.Sums(t.Context(), keys, p, p.Start(now)-1); err != nil || len(got) > 0 {
			t.Errorf("the %s before: %v, error %v", p, got, err)
		}
		if got, err := u.Sums(t.Context(), nil, p, now); err != nil || len(got) > 0 {
			t.Errorf("no key: %v, error %v", got, err)
		}
	}
}

func usageOfNobody(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Parallel()
	_, u := open(t)
	usage, err := ratelimit.Usage(t.Context(), u, "192.0.2.99", exportRoutes, here.Window)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range usage.Seconds {
		if w.Records != 0 || w.Imports != 0 || w.Requests == nil || len(w.Requests) != 0 {
			t.Errorf("%+v", w)
		}
	}
}

func usageCancelled(t *testing.T, open func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore)) {
	t.Parallel()
	_, u := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Used(ctx, here.Identity, exportRoutes, here.Window); err == nil {
		t.Error("no error")
	}
	if _, err := u.Sums(ctx, []string{"key:aaaaaaaaaaaa"}, ratelimit.Day, here.Window); err == nil {
		t.Error("no error of the sums")
	}
}

func charge(t *testing.T, s ratelimit.Store, key ratelimit.Key, costs ...ratelimit.Cost) {
	t.Helper()
	if _, err := s.Charge(t.Context(), key, costs); err != nil {
		t.Fatal(err)
	}
}
