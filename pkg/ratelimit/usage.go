package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is the number of windows that Usage returns: the last minute. A
// Store keeps its counters at least that long.
const UsageWindows = int(time.Minute / WindowLength)

// FirstUsageWindow returns the first of the UsageWindows windows up to last.
func FirstUsageWindow(last Window) Window { return last - Window(UsageWindows) + 1 }

// UsageStore reads the counters of a Store. Implementations are safe for
// concurrent use.
type UsageStore interface {
	// Used returns the counters of an address in all of scopes, by name, for
	// each of the UsageWindows windows up to and including last, oldest first;
	// nil or an empty map for a window without counters. Counters of different
	// scopes have different names. The most recent charges may be missing.
	Used(ctx context.Context, address string, scopes []Scope, last Window) ([]map[string]int64, error)
}

// WindowUsage is what an address has used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64
	Imports  int64
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// Usage returns what address, as ParseAddress returns it, has used on routes of
// scopes in each of the UsageWindows windows up to and including last, oldest
// first. Refused requests are not included: they cost nothing.
func Usage(ctx context.Context, store UsageStore, address string, scopes []Scope, last Window) ([]WindowUsage, error) {
	used, err := store.Used(ctx, address, scopes, last)
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

// add adds the counters of a window. A counter of 0 belongs to a rule that
// applied but cost nothing.
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
