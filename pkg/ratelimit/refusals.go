package ratelimit

import (
	"maps"
	"sync"
)

// maxRefused is how many identities Refusals counts in a window: 60 windows take about 6 MB.
const maxRefused = 1 << 10

// Refusals counts the refused requests of each identity in the last minute, which no Store does: many
// refusals need no call to one. It counts at most 1,024 identities in a window. The zero value is ready to
// use, and safe for concurrent use.
type Refusals struct {
	mu      sync.Mutex
	windows map[Window]map[string]int64
}

// Add counts a request that was refused in w.
func (r *Refusals) Add(identity string, w Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused, ok := r.windows[w]
	if !ok {
		maps.DeleteFunc(r.windows, func(old Window, _ map[string]int64) bool { // also if the clock was set back
			return old <= w-Window(UsageWindows) || old >= w+Window(UsageWindows)
		})
		if r.windows == nil {
			r.windows = make(map[Window]map[string]int64)
		}
		refused = make(map[string]int64)
		r.windows[w] = refused
	}
	if _, known := refused[identity]; known || len(refused) < maxRefused {
		refused[identity]++
	}
}

// Minute returns how many requests were refused in the UsageWindows windows that end with last, by
// identity.
func (r *Refusals) Minute(last Window) map[string]int64 {
	all := make(map[string]int64)
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := FirstUsageWindow(last); w <= last; w++ {
		for identity, n := range r.windows[w] {
			all[identity] += n
		}
	}
	return all
}
