package client

import (
	"math"
	"time"
)

const (
	// driftPer limits how far two clocks drift apart: by 1 second in driftPer seconds.
	driftPer = 5000

	// maxSkew is the most by which the clocks of the service's instances differ. If the
	// difference is greater, a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock estimates how far the service's clock is ahead of the client's. The estimate is a
// lower bound, so that the client can tell when a window has certainly begun. The service's
// time counts from the Unix epoch, the client's from the creation of the Client.
//
// The service counts a request at some instant between its sending and the receipt of its
// response, in the window that the response shows. Requests that are counted at the beginning
// of a window give the best bound.
type clock struct {
	ahead    time.Duration // lower bound of the service's time minus the client's time
	observed time.Duration // when the last response was received, in the client's time
}

// unknown is a clock before the first response.
var unknown = clock{ahead: math.MinInt64 / 2}

// observe improves the bound using a response. sent and received are the times of the request
// and the response by the client's clock, and reset is the Unix time at which the response's
// window ends. setBack says that the service's clock was set back since the last response, so
// that known counters are no longer valid.
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

// at returns the latest window that has certainly begun at now, in the client's time, and the
// step within that window, 0 to steps-1.
func (c *clock) at(now time.Duration, steps int64) (window, step int64) {
	n := int64(now+c.ahead) / (int64(time.Second) / steps)
	return n / steps, n % steps
}

// nextStep returns when the step after now begins, in the client's time.
func (c *clock) nextStep(now time.Duration, steps int64) time.Duration {
	step := time.Second / time.Duration(steps)
	return now + step - (now+c.ahead)%step
}
