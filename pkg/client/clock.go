package client

import (
	"math"
	"time"
)

const (
	// driftPer is the reciprocal of the maximum drift between two clocks: they
	// drift by at most 1 second in 5,000.
	driftPer = 5000

	// maxSkew is the maximum difference between the clocks of the service's
	// instances. A greater difference means that a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock estimates by how much the clock of the service is ahead of the client's.
// The estimate is a lower bound, so that the client can tell when a window of the
// service has certainly begun. The service's time counts from the Unix epoch, the
// client's time from the creation of the client.
//
// The service counts a request after the client has sent it and before the client
// receives the response. Each response therefore shows that its window contains an
// instant between these two times. Requests that are counted at the beginning of a
// window give the most precise bound.
type clock struct {
	ahead    time.Duration // lower bound of the service's time minus the client's time
	observed time.Duration // client's time at which the last response was received
}

// unknown is a clock before the first response.
var unknown = clock{ahead: math.MinInt64 / 2}

// observe improves the bound with a response. The request was sent and its response
// received at the given times of the client, and its window ends at reset. observe
// reports whether the service's clock was set back, or the client's clock forward,
// since the last response. The known counters of windows are then no longer valid.
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

// begin returns the client's time by which a window has certainly begun.
func (c *clock) begin(window int64) time.Duration {
	return time.Duration(window)*time.Second - c.ahead
}
