package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// UsageWindows is how many windows a usage shows: the last minute. Every Store
// keeps its counters at least as long.
const UsageWindows = int(time.Minute / WindowLength)

// UsageStore reads what charges have left in a Store. Implementations are safe
// for concurrent use.
type UsageStore interface {
	// Used returns, for each key, its counters by name; nil or an empty map
	// where nothing was charged. What was charged in the last moments may be
	// missing, and so may a window that ended more than UsageWindows ago.
	Used(ctx context.Context, keys []Key) ([]map[string]int64, error)
}

// WindowUsage is what an address has used in one window.
type WindowUsage struct {
	Window   Window
	Records  int64
	Imports  int64
	Requests map[string]int64 // by route name, such as list-entity; never nil
}

// Usage reads what address, as ParseAddress returns it, has used in the
// UsageWindows windows up to and including last, oldest first. The window that
// has not ended is still growing. Refused requests are in no counter: they
// cost nothing.
func Usage(ctx context.Context, store UsageStore, address string, last Window) ([]WindowUsage, error) {
	classes := [Classes]Class{General, Export, Import}
	keys := make([]Key, 0, UsageWindows*len(classes))
	for w := last - Window(UsageWindows) + 1; w <= last; w++ {
		for _, class := range classes {
			keys = append(keys, Key{Address: address, Class: class, Window: w})
		}
	}
	used, err := store.Used(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	usage := make([]WindowUsage, UsageWindows)
	for i := range usage {
		u := &usage[i]
		u.Window, u.Requests = keys[i*len(classes)].Window, make(map[string]int64)
		for _, counters := range used[i*len(classes) : (i+1)*len(classes)] {
			for name, n := range counters {
				switch route, ok := counterRoute(name); {
				case n == 0: // a rule that was looked at and cost nothing
				case name == PolicyRecords:
					u.Records = n
				case name == PolicyImports:
					u.Imports = n
				case ok:
					u.Requests[route] = n
				}
			}
		}
	}
	return usage, nil
}
