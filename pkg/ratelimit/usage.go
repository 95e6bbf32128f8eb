package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is the number of windows that Usage returns. They cover the last minute.
// A Store should keep its counters for at least one minute.
const UsageWindows = int(time.Minute / WindowLength)

// FirstUsageWindow returns the first of UsageWindows consecutive windows. The parameter
// last is the last of these windows.
func FirstUsageWindow(last Window) Window { return last - Window(UsageWindows) + 1 }

// UsageStore reads the counters of a Store. Implementations are safe for
// concurrent use.
type UsageStore interface {
	// Used returns the counters of an identity in the given scopes. It returns one map
	// for each of UsageWindows consecutive windows, oldest first. The parameter last is
	// the last of these windows. A map contains the values of the counters by name, and
	// is nil or empty if the window has no counters. Counters of different scopes have
	// different names. The most recent charges may be missing.
	Used(ctx context.Context, identity string, scopes []Scope, last Window) ([]map[string]int64, error)
}

// WindowUsage holds the counters of an identity in one window.
type WindowUsage struct {
	Window   Window
	Records  int64            // records returned by all export routes together
	Imports  int64            // requests to all import routes together
	Requests map[string]int64 // requests by route name, such as list-entity; never nil
}

// Usage returns the usage of an identity on the routes of scopes: one WindowUsage for each of
// the UsageWindows windows up to last, oldest first. Refused requests cost nothing and are not
// in it. The most recent charges may be missing. Usage returns an error if the store fails.
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

// add sets the fields of u from the counters of a window. It skips counters with the
// value 0. A charge of 0 can create such a counter.
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
