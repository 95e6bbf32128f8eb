package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is the number of windows that Usage returns: the last minute. A
// Store keeps its counters at least that long.
const UsageWindows = int(time.Minute / WindowLength)

// UsageStore reads the counters of a Store. Implementations are safe for
// concurrent use.
type UsageStore interface {
	// Used returns the counters of each key by name, in the order of keys; nil
	// or an empty map for a key without counters. The most recent charges may
	// be missing, as may windows that ended more than UsageWindows ago.
	Used(ctx context.Context, keys []Key) ([]map[string]int64, error)
}

// WindowUsage is what an address has used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64
	Imports  int64
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// Usage returns what address, as ParseAddress returns it, has used in each of
// the UsageWindows windows up to and including last, oldest first. Refused
// requests are not included: they cost nothing.
func Usage(ctx context.Context, store UsageStore, address string, last Window) ([]WindowUsage, error) {
	classes := []Class{General, Export, Import}
	usage := make([]WindowUsage, UsageWindows)
	var keys []Key
	for i := range usage {
		w := last - Window(UsageWindows-1-i)
		usage[i] = WindowUsage{Window: w, Requests: make(map[string]int64)}
		for _, class := range classes {
			keys = append(keys, Key{Address: address, Class: class, Window: w})
		}
	}
	used, err := store.Used(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	for i, counters := range used {
		usage[i/len(classes)].add(counters)
	}
	return usage, nil
}

// add adds the counters of one class. A counter of 0 belongs to a rule that
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
