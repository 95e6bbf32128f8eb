package client

import "time"

const (
	// driftPer is one part in so many by which two clocks may run apart.
	driftPer = 5000

	// maxSkew is the most by which the clocks of the service's instances differ
	// from each other. Beyond that a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock is what is known of the service's clock: that it is ahead of the
// client's by low at least and by high at most. Both count nanoseconds, the
// service's since the Unix epoch, the client's since the client was made.
//
// A response that came at the time received to a request that was sent at the
// time sent, and was counted in the window that ends at reset, shows that some
// time between the two was within that window. Responses from both sides of a
// window's end narrow the bounds to the time that a response takes.
type clock struct {
	low, high time.Duration
	seen      time.Duration // when the bounds were last narrowed
	known     bool
}

// observe narrows the bounds by a response. It reports whether the clock must
// have been set since the last one: then what is known of windows holds no more.
func (c *clock) observe(sent, received time.Duration, reset int64) (set bool) {
	end := time.Duration(reset) * time.Second
	low, high := end-time.Second-received, end-sent
	if !c.known || low > c.high+maxSkew || high < c.low-maxSkew {
		set = c.known
		*c = clock{low: low, high: high, seen: received, known: true}
		return set
	}
	drift := (received - c.seen) / driftPer
	c.high = min(c.high+drift, high)
	c.low = min(max(c.low-drift, low), c.high)
	c.seen = received
	return false
}

// window is the one that has certainly begun at a time of the client's. It is
// below all windows until the first response.
func (c *clock) window(at time.Duration) int64 {
	if !c.known {
		return -1 << 62
	}
	return int64((at + c.low) / time.Second)
}

// begin is the time of the client's at which a window has certainly begun.
func (c *clock) begin(window int64) time.Duration {
	return time.Duration(window)*time.Second - c.low
}
