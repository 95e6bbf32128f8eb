package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is how many windows Usage returns: the last minute. A Store should keep its
// counters for that long.
const UsageWindows = int(time.Minute / WindowLength)

// FirstUsageWindow returns the first of the UsageWindows windows that end with last.
func FirstUsageWindow(last Window) Window { return last - Window(UsageWindows) + 1 }

// UsageStore reads the counters of a Store. Implementations are safe for concurrent use.
type UsageStore interface {
	// Used returns the counters of an identity in scopes, as one map for each of the UsageWindows
	// windows that end with last, oldest first. A map has the counters by name, which is unique
	// among all scopes, and is nil or empty if there are none. The most recent charges may be
	// missing.
	Used(ctx context.Context, identity string, scopes []Scope, last Window) ([]map[string]int64, error)
}

// WindowUsage is what an identity used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64            // over all export routes
	Imports  int64            // requests, over all import routes
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// Usage returns the usage of an identity on the routes of scopes, as one WindowUsage for each
// of the UsageWindows windows that end with last, oldest first. Refused requests do not count,
// and the most recent charges may be missing. It fails if the store does.
func Usage(ctx context.Context, store UsageStore, identity string, scopes []Scope, last Window) ([]WindowUsage, error) {
	used, err := store.Used(ctx, identity, scopes, last)
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
		case name == PolicyRecords:
			u.Records = n
		case name == PolicyImports:
			u.Imports = n
		case ok:
			u.Requests[route] = n
		}
	}
}
