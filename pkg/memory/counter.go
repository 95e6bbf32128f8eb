// Package memory keeps rate limit counters in memory, for one process.
package memory

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"sluice/pkg/ratelimit"
)

const (
	minute     = ratelimit.Window(ratelimit.UsageWindows) // age, in windows, at which a window is dropped
	retained   = 3                                        // age, in windows, up to which a window is always kept, because charges can arrive late
	maxHistory = 1 << 15                                  // maximum number of keys kept in windows older than retained
)

var errDropped = errors.New("the counters of the window were dropped")

// Counters is a ratelimit.Store, a ratelimit.UsageStore and a ratelimit.MinuteStore. It keeps all keys of the last four
// windows, and up to 32,768 older keys of the last minute. A key takes about 350 bytes. Sums of days are
// kept for three days, those of months for 13 months. Counters is safe for concurrent use.
type Counters struct {
	mu      sync.Mutex
	windows map[ratelimit.Window]map[ratelimit.Key]map[string]int64
	newest  ratelimit.Window
	sums    sums
	dropped ratelimit.Window // newest window that was dropped because of maxHistory
}

// NewCounters returns an empty Counters.
func NewCounters() *Counters {
	return &Counters{windows: make(map[ratelimit.Window]map[ratelimit.Key]map[string]int64), dropped: math.MinInt64, sums: sums{known: make(map[ratelimit.Sum]sum), wanted: make(map[ratelimit.Sum]want)}}
}

// Charge implements ratelimit.Store. It returns an error and charges nothing if ctx is done or
// the counters of the window were dropped. If the window is at least a minute older than the
// newest, Charge assumes that the clock was set back and makes this window the newest.
func (s *Counters) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	for {
		result, short, err := s.charge(ctx, key, costs)
		if !short || err != nil {
			return result, err
		}
		if err := s.reserve(ctx, key.Window); err != nil {
			return ratelimit.Result{}, err
		}
	}
}

// charge is Charge, unless short is true: then a sum must be reserved first.
func (s *Counters) charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (_ ratelimit.Result, short bool, err error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Result{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.newest - key.Window; age < 0 || age >= minute {
		s.begin(key.Window)
	}
	window := s.windows[key.Window]
	if window == nil {
		if key.Window <= s.dropped {
			return ratelimit.Result{}, false, errDropped
		}
		window = make(map[ratelimit.Key]map[string]int64)
		s.windows[key.Window] = window
	}
	used := window[key]
	result := ratelimit.Result{Admitted: true, Used: make([]int64, len(costs))}
	for i, c := range costs {
		if of, ok := sumOf(key, c); ok {
			result.Used[i] = s.sums.known[of].used
			short = s.sums.short(of, c) || short
		} else {
			result.Used[i] = used[c.Rule.Counter]
		}
		result.Admitted = result.Admitted && c.Rule.Fits(result.Used[i], c.Amount)
	}
	if !result.Admitted || short {
		return result, result.Admitted && short, nil
	}
	if used == nil {
		used = make(map[string]int64, len(costs))
		window[key] = used
	}
	for i, c := range costs {
		if of, ok := sumOf(key, c); ok {
			result.Used[i] = s.sums.add(of, c.Amount)
			continue
		}
		result.Used[i] += c.Amount
		used[c.Rule.Counter] = result.Used[i]
	}
	return result, false, nil
}

// Used implements ratelimit.UsageStore. It fails only if ctx is done.
func (s *Counters) Used(ctx context.Context, identity string, routes []ratelimit.Route, last ratelimit.Window) (ratelimit.Used, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Used{}, err
	}
	used := ratelimit.Used{Seconds: make([]map[string]int64, ratelimit.UsageWindows)}
	groups := ratelimit.Groups(routes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range used.Seconds {
		used.Seconds[i] = make(map[string]int64)
		w := ratelimit.FirstUsageWindow(last) + ratelimit.Window(i)
		for _, group := range groups {
			maps.Copy(used.Seconds[i], s.windows[w][ratelimit.Key{Identity: identity, Group: group, Window: w}])
		}
	}
	sums := func(p ratelimit.Period) map[string]int64 {
		u := s.sums.of(identity, p, last)
		return map[string]int64{ratelimit.RuleRecords: u.Records, ratelimit.RuleImports: u.Imports}
	}
	used.Day, used.Month = sums(ratelimit.Day), sums(ratelimit.Month)
	return used, nil
}

// Sums implements ratelimit.UsageStore. It fails only if ctx is done.
func (s *Counters) Sums(ctx context.Context, keys []string, p ratelimit.Period, w ratelimit.Window) (map[string]ratelimit.PeriodUsage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := make(map[string]ratelimit.PeriodUsage)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, identity := range keys {
		if u := s.sums.of(identity, p, w); u.Records > 0 || u.Imports > 0 {
			all[identity] = u
		}
	}
	return all, nil
}

// Minute implements ratelimit.MinuteStore. Charges wait for one window at a time. It fails only if ctx is
// done.
func (s *Counters) Minute(ctx context.Context, last ratelimit.Window) (map[string]ratelimit.MinuteUsage, error) {
	all := make(map[string]ratelimit.MinuteUsage)
	for w := ratelimit.FirstUsageWindow(last); w <= last; w++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		for key, counters := range s.windows[w] {
			u := all[key.Identity]
			u.Add(counters)
			all[key.Identity] = u
		}
		s.mu.Unlock()
	}
	return all, nil
}

// begin makes w the newest window and drops windows that are no longer needed.
func (s *Counters) begin(w ratelimit.Window) {
	s.newest = w
	if s.dropped >= w {
		s.dropped = math.MinInt64 // the clock was set back
	}
	history := 0
	for _, old := range slices.Backward(slices.Sorted(maps.Keys(s.windows))) {
		age, keys := w-old, len(s.windows[old])
		switch {
		case age >= minute:
			delete(s.windows, old)
		case age <= retained:
		case history+keys <= maxHistory:
			history += keys
		default:
			delete(s.windows, old)
			s.dropped = max(s.dropped, old)
		}
	}
}
