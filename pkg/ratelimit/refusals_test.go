package ratelimit_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"sluice/pkg/ratelimit"
)

func TestRefusalsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	var r ratelimit.Refusals
	const last = ratelimit.Window(1_800_000_000)
	r.Add("b", last-60)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r.Add("a", last)
				r.Add("a", last-59)
				r.Add("b", last-59)
			}
		})
	}
	wg.Wait()
	for at, want := range map[ratelimit.Window]map[string]int64{
		last - 1:  {"a": 400, "b": 400},
		last:      {"a": 800, "b": 400},
		last + 1:  {"a": 400},
		last + 60: {},
	} {
		if got := r.Minute(at); !maps.Equal(got, want) {
			t.Errorf("at %d: %v, want %v", at-last, got, want)
		}
	}
	r.Add("c", last-10_000) // the clock was set back
	if got := r.Minute(last - 10_000); !maps.Equal(got, map[string]int64{"c": 1}) {
		t.Errorf("after the clock was set back: %v", got)
	}
}

// A flood from countless addresses takes a bounded amount of memory, and leaves other seconds alone.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var r ratelimit.Refusals
	const last = ratelimit.Window(1_800_000_000)
	r.Add("first", last)
	for n := range 5000 {
		r.Add(fmt.Sprint(n), last)
	}
	r.Add("first", last)
	r.Add("next", last+1)
	if got := r.Minute(last + 1); len(got) != 1025 || got["first"] != 2 || got["next"] != 1 {
		t.Errorf("%d identities, first %d, next %d", len(got), got["first"], got["next"])
	}
}

func TestShareOfALimit(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{Records: 100, Imports: 10, Requests: 50}
	var u ratelimit.MinuteUsage
	for _, counters := range []map[string]int64{{"records": 20, "r_list_event": 3, "r_get_event": 2}, {"records": 80, "r_list_event": 45}, {"imports": 5}} {
		u.Add(counters)
	}
	if u.Records != 100 || u.Imports != 5 || u.Requests != 50 || u.Peak.Share(limits) != 0.9 {
		t.Errorf("%+v, share %v", u, u.Peak.Share(limits))
	}
	quotas := ratelimit.Quotas{RecordsPerDay: 100, RecordsPerMonth: 1000, ImportsPerMonth: 10}
	sum := ratelimit.PeriodUsage{Records: 50, Imports: 9}
	for p, want := range map[ratelimit.Period]float64{ratelimit.Day: 0.5, ratelimit.Month: 0.9} {
		if got, ok := sum.Share(quotas, p); got != want || !ok {
			t.Errorf("%s: %v, %v", p, got, ok)
		}
	}
	if got, ok := sum.Share(ratelimit.Quotas{}, ratelimit.Day); ok {
		t.Errorf("without a quota: %v", got)
	}
}
