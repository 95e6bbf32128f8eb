package client

import (
	"math"
	"time"
)

const (
	// driftPer bounds how fast two clocks drift apart: at most 1 second in driftPer seconds.
	driftPer = 5000

	// maxSkew is how far apart the clocks of the service's instances may be. A greater difference
	// means that a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock estimates how far the service's clock is ahead of the client's. The estimate is a
// lower bound, so that the client can tell when a window has certainly begun. The service's
// time starts at the Unix epoch, and the client's time starts when the Client is created.
//
// The service counts a request at some time after it was sent and before its response is
// received. The response shows in which window. Requests counted at the beginning of a window
// give the best bound.
type clock struct {
	ahead    time.Duration // lower bound for the service's time minus the client's time
	observed time.Duration // when the last response was received, in the client's time
}

// unknown is the value of a clock before the first response.
var unknown = clock{ahead: math.MinInt64 / 2}

// observe improves the bound using a response. sent and received are the client's times at which
// the request was sent and the response was received. reset is the Unix time at which the
// response's window ends. setBack reports whether the service's clock was set back since the
// previous response. If so, the known counters are no longer valid.
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

// locate returns the latest window that has certainly begun, and the step within that window,
// from 0 to steps-1. now is in the client's time.
func (c *clock) locate(now time.Duration, steps int64) (window, step int64) {
	n := int64(now+c.ahead) / (int64(time.Second) / steps)
	return n / steps, n % steps
}

// nextStep returns the start of the first step after now. Both are in the client's time.
func (c *clock) nextStep(now time.Duration, steps int64) time.Duration {
	step := time.Second / time.Duration(steps)
	return now + step - (now+c.ahead)%step
}
