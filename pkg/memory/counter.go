// Package memory keeps rate limit counters in the memory of one process.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/pkg/ratelimit"
)

const (
	minute     = ratelimit.Window(ratelimit.UsageWindows) // a window that is at least this many windows old is dropped
	retained   = 3                                        // a window that is at most this many windows old is kept, because charges can arrive late
	maxHistory = 512                                      // maximum total number of keys per shard in windows that are more than retained windows old
)

// errDropped is the error of a charge in a window whose counters were dropped.
var errDropped = errors.New("the counters of the window were dropped")

// Counters is a ratelimit.Store and a ratelimit.UsageStore. It keeps all keys of the last four
// windows, and up to 32,768 keys of the other windows of the last minute. A key takes about
// 350 bytes. A charge that begins a new window drops older ones. Counters is safe for
// concurrent use.
type Counters struct {
	seed   maphash.Seed
	shards [64]shard

	newest  atomic.Int64 // newest window
	advance sync.Mutex   // held by the goroutine that changes the field newest
}

// shard holds the counters of the addresses that hash to it.
type shard struct {
	mu      sync.Mutex
	windows map[ratelimit.Window]map[ratelimit.Key]map[string]int64
	dropped ratelimit.Window // newest window that was dropped because of maxHistory
}

// NewCounters returns counters that are all zero.
func NewCounters() *Counters {
	s := &Counters{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].windows = make(map[ratelimit.Window]map[ratelimit.Key]map[string]int64)
		s.shards[i].dropped = math.MinInt64
	}
	return s
}

// Charge implements ratelimit.Store. It returns an error, and charges nothing, if ctx is done
// or the counters of the window were dropped. A window that is at least a minute older than
// the newest means that the clock was set back, and becomes the newest.
func (s *Counters) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Result{}, err
	}
	if !s.current(key.Window) {
		s.begin(key.Window)
	}
	return s.shard(key.Address).charge(key, costs)
}

// Used implements ratelimit.UsageStore. It returns an error only if ctx is done.
func (s *Counters) Used(ctx context.Context, address string, scopes []ratelimit.Scope, last ratelimit.Window) ([]map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	used := make([]map[string]int64, ratelimit.UsageWindows)
	sh := s.shard(address)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range used {
		used[i] = make(map[string]int64)
		w := ratelimit.FirstUsageWindow(last) + ratelimit.Window(i)
		for _, scope := range scopes {
			maps.Copy(used[i], sh.windows[w][ratelimit.Key{Address: address, Scope: scope, Window: w}])
		}
	}
	return used, nil
}

// shard returns the shard that holds the counters of an address.
func (s *Counters) shard(address string) *shard {
	return &s.shards[maphash.String(s.seed, address)%uint64(len(s.shards))]
}

// current reports whether w is the newest window, or less than a minute older than the
// newest window.
func (s *Counters) current(w ratelimit.Window) bool {
	age := ratelimit.Window(s.newest.Load()) - w
	return age >= 0 && age < minute
}

// begin makes w the newest window, unless another goroutine has already done so.
func (s *Counters) begin(w ratelimit.Window) {
	s.advance.Lock()
	defer s.advance.Unlock()
	if s.current(w) {
		return
	}
	s.newest.Store(int64(w))
	for i := range s.shards {
		s.shards[i].drop(w)
	}
}

// drop deletes the windows that are not needed when newest begins.
func (sh *shard) drop(newest ratelimit.Window) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.dropped >= newest {
		sh.dropped = math.MinInt64 // the clock was set back
	}
	history := 0
	for _, w := range slices.Backward(slices.Sorted(maps.Keys(sh.windows))) {
		age, keys := newest-w, len(sh.windows[w])
		switch {
		case age >= minute:
			delete(sh.windows, w)
		case age <= retained:
		case history+keys <= maxHistory:
			history += keys
		default:
			delete(sh.windows, w)
			sh.dropped = max(sh.dropped, w)
		}
	}
}

func (sh *shard) charge(key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	window := sh.windows[key.Window]
	if window == nil {
		if key.Window <= sh.dropped {
			return ratelimit.Result{}, errDropped
		}
		window = make(map[ratelimit.Key]map[string]int64)
		sh.windows[key.Window] = window
	}
	used := window[key]
	result := ratelimit.Result{Admitted: true, Used: make([]int64, len(costs))}
	for i, c := range costs {
		result.Used[i] = used[c.Rule.Counter]
		result.Admitted = result.Admitted && c.Rule.Fits(result.Used[i], c.Amount)
	}
	if !result.Admitted {
		return result, nil
	}
	if used == nil {
		used = make(map[string]int64, len(costs))
		window[key] = used
	}
	for i, c := range costs {
		result.Used[i] += c.Amount
		used[c.Rule.Counter] = result.Used[i]
	}
	return result, nil
}
