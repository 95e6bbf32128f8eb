package ratelimit

import (
	"sync/atomic"
	"time"
)

// clockHold is how long the distance between the two clocks of the system, the
// wall clock and the monotonic one, is taken to stay as it is. A wall clock that
// is set is followed this much later; one that is slewed, as time daemons do,
// strays less than a microsecond.
const clockHold = time.Millisecond

// clock tells the present window. time.Now reads both clocks; where requests come
// so fast that it counts, this reads the monotonic one alone, at half the cost. It
// is safe for concurrent use.
type clock struct {
	now  func() time.Time // in place of the system's clocks; may be nil
	base time.Time

	distance atomic.Int64 // ns that the wall clock is ahead of the time since base
	until    atomic.Int64 // ns since base that distance holds
}

func newClock(now func() time.Time) *clock { return &clock{now: now, base: time.Now()} }

func (c *clock) window() Window {
	if c.now != nil {
		return WindowAt(c.now())
	}
	if elapsed := int64(time.Since(c.base)); elapsed < c.until.Load() {
		return Window((elapsed + c.distance.Load()) / int64(WindowLength))
	}
	t := time.Now()
	elapsed := int64(t.Sub(c.base))
	c.distance.Store(t.UnixNano() - elapsed) // first: until vouches for it
	c.until.Store(elapsed + int64(clockHold))
	return WindowAt(t)
}
