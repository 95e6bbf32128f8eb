package client

import (
	"math"
	"time"
)

const (
	// driftPer is the reciprocal of the maximum drift between two clocks: they drift by
	// at most 1 second in 5,000 seconds.
	driftPer = 5000

	// maxSkew is the maximum difference between the clocks of the service's
	// instances. A greater difference means that a clock was set.
	maxSkew = 100 * time.Millisecond
)

// clock estimates by how much the clock of the service is ahead of the client's clock.
// The estimate is a lower bound, so that the client can tell when a window of the
// service has certainly begun. The service's time counts from the Unix epoch, and
// the client's time counts from the creation of the Client.
//
// The service counts a request at some instant between the time at which the client
// sends it and the time at which the client receives the response. The window that the
// response shows contains this instant. Requests that are counted at the beginning of a
// window give the most precise bound.
type clock struct {
	ahead    time.Duration // lower bound of the difference: service's time minus client's time
	observed time.Duration // client's time at which the last response was received
}

// unknown is a clock before the first response.
var unknown = clock{ahead: math.MinInt64 / 2}

// observe uses a response to improve the lower bound in c.ahead. The first two parameters
// are times on the client's clock: sent is when the client sent the request, and received
// is when it received the response. The parameter reset is the Unix time at which the
// response's window ends.
//
// observe reports whether the service's clock was set back since the last response. If so,
// the known counters are no longer valid.
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

// at returns the latest window that has certainly begun at the client's time now, and the step of
// the window, 0 to steps-1.
func (c *clock) at(now time.Duration, steps int64) (window, step int64) {
	n := int64(now+c.ahead) / (int64(time.Second) / steps)
	return n / steps, n % steps
}

// nextStep returns the client's time at which the step after now begins.
func (c *clock) nextStep(now time.Duration, steps int64) time.Duration {
	step := time.Second / time.Duration(steps)
	return now + step - (now+c.ahead)%step
}
