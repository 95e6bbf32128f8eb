package client

import (
	"math"
	"time"
)

const (
	// driftPer is the reciprocal of the rate at which two clocks may run apart.
	driftPer = 5000

	// maxSkew is the most by which the clocks of the service's instances differ
	// from each other. Beyond that a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock is what is known of the service's clock: that it is ahead of the
// client's by at least a certain time, so that a window of the service has
// certainly begun. The service's time counts from the Unix epoch, the client's
// from the creation of the client.
//
// A response that was received to a request that was sent at a certain time,
// and that was counted in the window that ends at reset, shows that some time
// between the two was within that window. The responses from the beginning of a
// window are the precise ones.
type clock struct {
	ahead    time.Duration // a lower bound
	observed time.Duration // when the last response was received
}

// unknown is a clock before the first response.
var unknown = clock{ahead: math.MinInt64 / 2}

// observe improves the bound by a response. It reports whether the service's clock
// must have been set back since the last response, or the client's forward: then
// what is known about windows is no longer true.
func (c *clock) observe(sent, received time.Duration, reset int64) (setBack bool) {
	end := time.Duration(reset) * time.Second
	low, high := end-time.Second-received, end-sent
	if setBack = high < c.ahead-maxSkew; setBack {
		*c = unknown
	}
	drift := (received - c.observed) / driftPer
	c.ahead, c.observed = min(max(c.ahead-drift, low), high), received
	return setBack
}

// begin returns the client's time at which a window has certainly begun.
func (c *clock) begin(window int64) time.Duration {
	return time.Duration(window)*time.Second - c.ahead
}
