package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is the number of windows in the minute that Usage covers. A Store should keep its
// counters for that long.
const UsageWindows = int(time.Minute / WindowLength)

// FirstUsageWindow returns the oldest window that Usage covers if last is the newest.
func FirstUsageWindow(last Window) Window { return last - Window(UsageWindows) + 1 }

// UsageStore reads the counters of a Store. Implementations must be safe for concurrent use.
type UsageStore interface {
	// Used returns an identity's counters in the listed groups for each of the UsageWindows windows
	// that end with last, oldest first. Each window has a map from counter name to value; the map
	// is nil or empty if there are no counters. No two groups share a counter name. The most
	// recent charges may be missing.
	Used(ctx context.Context, identity string, groups []Group, last Window) ([]map[string]int64, error)
}

// WindowUsage is what an identity used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64            // across all export routes
	Imports  int64            // number of requests, across all import routes
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// Usage returns what an identity has used on the routes of the listed groups in each of the
// UsageWindows windows that end with last, oldest first. Refused requests do not count, and
// the most recent charges may be missing. Usage fails if the store does.
func Usage(ctx context.Context, store UsageStore, identity string, groups []Group, last Window) ([]WindowUsage, error) {
	used, err := store.Used(ctx, identity, groups, last)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	usage := make([]WindowUsage, len(used))
	for i, counters := range used {
		usage[i] = WindowUsage{Window: FirstUsageWindow(last) + Window(i), Requests: make(map[string]int64)}
		usage[i].add(counters)
	}
	return usage, nil
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
