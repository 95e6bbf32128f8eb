package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// UsageWindows is the number of windows in the minute that Usage covers. A Store should keep its
// counters for that long.
const UsageWindows = int(time.Minute / WindowLength)

// FirstUsageWindow returns the oldest window that Usage covers if last is the newest.
func FirstUsageWindow(last Window) Window { return last - Window(UsageWindows) + 1 }

// UsageStore reads the counters of a Store. Implementations must be safe for concurrent use.
type UsageStore interface {
	// Used returns an identity's counters on the listed routes. The most recent charges may be missing.
	Used(ctx context.Context, identity string, routes []Route, last Window) (Used, error)

	// Sums returns what keys have used in the Day or Month that contains w, by identity. What used nothing is
	// absent. The most recent charges may be missing.
	Sums(ctx context.Context, keys []string, p Period, w Window) (map[string]PeriodUsage, error)
}

// MinuteStore is a Store that has the counters of all identities, because no other process counts.
// Implementations must be safe for concurrent use.
type MinuteStore interface {
	// Minute returns what each identity has used in the UsageWindows windows that end with last.
	Minute(ctx context.Context, last Window) (map[string]MinuteUsage, error)
}

// Used is what a UsageStore reads. Each map is from the name of a counter to its value, and is nil or
// empty if there are no counters. No two groups share the name of a counter.
type Used struct {
	// Seconds has the counters of each of the UsageWindows windows that end with last, oldest first. Of
	// a key, a Store may have removed all but those of the last seconds.
	Seconds []map[string]int64

	// Day and Month have the sums of the day and the month of last. An address has none.
	Day, Month map[string]int64
}

// Groups returns the groups of the counters of routes.
func Groups(routes []Route) (groups []Group) {
	for _, r := range routes {
		if !slices.Contains(groups, r.Group()) {
			groups = append(groups, r.Group())
		}
	}
	return groups
}

// Counters returns the names of the counters that a request to r is charged to.
func (r Route) Counters() []string {
	switch r.Class {
	case Export:
		return []string{RuleRecords, r.counter()}
	case Import:
		return []string{RuleImports, r.counter()}
	default:
		return []string{r.counter()}
	}
}

// WindowUsage is what an identity used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64            // across all export routes
	Imports  int64            // number of requests, across all import routes
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// PeriodUsage is what a key used in a day or a month.
type PeriodUsage struct {
	Start   Window
	Records int64
	Imports int64
}

// Share returns the largest share of a quota that is used, in the period p; ok is false without a quota.
func (u PeriodUsage) Share(q Quotas, p Period) (share float64, ok bool) {
	used := map[string]int64{RuleRecords: u.Records, RuleImports: u.Imports}
	for _, one := range q.AllQuotas() {
		if one.Period == p && one.Limit > 0 {
			share, ok = max(share, float64(used[one.Counter])/float64(one.Limit)), true
		}
	}
	return share, ok
}

// MinuteUsage is what an identity used in UsageWindows windows, in all and in the busiest of them.
type MinuteUsage struct {
	Records, Imports, Requests int64
	Peak                       WindowPeak
}

// WindowPeak is the most that an identity used of each limit in one window.
type WindowPeak struct {
	Records, Imports int64
	Requests         int64 // to one route
}

// Add adds the counters of a group in one window.
func (u *MinuteUsage) Add(counters map[string]int64) {
	for name, n := range counters {
		switch _, ok := counterRoute(name); {
		case name == RuleRecords:
			u.Records += n
			u.Peak.Records = max(u.Peak.Records, n)
		case name == RuleImports:
			u.Imports += n
			u.Peak.Imports = max(u.Peak.Imports, n)
		case ok:
			u.Requests += n
			u.Peak.Requests = max(u.Peak.Requests, n)
		}
	}
}

// Share returns the largest share of a limit that one window used.
func (p WindowPeak) Share(l Limits) float64 {
	of := func(used, limit int64) float64 { return float64(used) / float64(limit) }
	return max(of(p.Records, l.Records), of(p.Imports, l.Imports), of(p.Requests, l.Requests))
}

// Use is what an identity has used.
type Use struct {
	Seconds    []WindowUsage // oldest first; of a key, only the last and those that are not empty
	Day, Month *PeriodUsage  // nil of an address
}

// Usage returns what an identity has used on routes in the UsageWindows windows that end with last.
// Refused requests do not count, and the most recent charges may be missing. Usage fails if the store
// does.
func Usage(ctx context.Context, store UsageStore, identity string, routes []Route, last Window) (Use, error) {
	used, err := store.Used(ctx, identity, routes, last)
	if err != nil {
		return Use{}, fmt.Errorf("read counters: %w", err)
	}
	var u Use
	_, isKey := KeyID(identity)
	for i, counters := range used.Seconds {
		w := WindowUsage{Window: FirstUsageWindow(last) + Window(i), Requests: make(map[string]int64)}
		w.add(counters)
		if !isKey || w.Window == last || w.Records > 0 || w.Imports > 0 || len(w.Requests) > 0 {
			u.Seconds = append(u.Seconds, w)
		}
	}
	if isKey {
		u.Day = &PeriodUsage{Day.Start(last), used.Day[RuleRecords], used.Day[RuleImports]}
		u.Month = &PeriodUsage{Month.Start(last), used.Month[RuleRecords], used.Month[RuleImports]}
	}
	return u, nil
}

// add skips counters of 0, which a charge of 0 can create.
func (u *WindowUsage) add(counters map[string]int64) {
	for name, n := range counters {
		switch route, ok := counterRoute(name); {
		case n == 0:
		case name == RuleRecords:
			u.Records = n
		case name == RuleImports:
			u.Imports = n
		case ok:
			u.Requests[route] = n
		}
	}
}
