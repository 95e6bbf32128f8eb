package ratelimit

import (
	"net/http"
	"strconv"
)

// Decision says whether a request may pass and how its rules stand. A refusal
// is a Decision, not an error.
type Decision struct {
	Allowed  bool
	Window   Window
	Counters []Counter // the request's rules, at least one
	Local    bool      // refused by what was known, without asking the store; Used is as last seen
	Degraded error     // why the store could not tell, where the fallback decided in its place; nil otherwise
}

// exhaust shows every counter as used up.
func (d *Decision) exhaust() {
	for i := range d.Counters {
		d.Counters[i].Used = d.Counters[i].Limit
	}
}

// RetryAfter is how many whole seconds to wait for a new window, rounded up:
// 1, since a window lasts a second. Clients in the field retry at once on 0
// and fail on a fraction.
const RetryAfter = 1

// Remaining is the smallest remainder among the rules: no more than that many
// further requests can pass in this window. It is 0 on a refusal.
func (d Decision) Remaining() int64 {
	if !d.Allowed {
		return 0
	}
	return d.tightest().Remaining()
}

// tightest is the counter with the smallest remainder; of equal ones the one
// with the smallest limit.
func (d Decision) tightest() Counter {
	tightest := d.Counters[0]
	for _, c := range d.Counters[1:] {
		if c.Remaining() < tightest.Remaining() || c.Remaining() == tightest.Remaining() && c.Limit < tightest.Limit {
			tightest = c
		}
	}
	return tightest
}

// Violated names the rules that had no room, in the order of Counters. It is
// nil when the request was allowed.
func (d Decision) Violated() []string {
	if d.Allowed {
		return nil
	}
	var policies []string
	for _, c := range d.Counters {
		if !c.Fits() {
			policies = append(policies, c.Policy)
		}
	}
	return policies
}

// SetHeaders writes how the rules stand: X-RateLimit-Limit, -Remaining and
// -Reset (Unix seconds) for the tightest rule, and RateLimit-Policy and
// RateLimit for every rule (draft-ietf-httpapi-ratelimit-headers-10). The
// first three are stored under the case of their specification, which is not
// the one that http.Header.Get looks up.
func (d Decision) SetHeaders(h http.Header) {
	h["X-RateLimit-Limit"] = []string{strconv.FormatInt(d.tightest().Limit, 10)}
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(d.Remaining(), 10)}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt(d.Window.Reset(), 10)}

	var policy, state []byte
	for i, c := range d.Counters {
		if i > 0 {
			policy = append(policy, ", "...)
			state = append(state, ", "...)
		}
		policy = strconv.AppendQuote(policy, c.Policy)
		policy = append(policy, ";q="...)
		policy = strconv.AppendInt(policy, c.Limit, 10)
		policy = append(policy, ";w=1"...)
		state = strconv.AppendQuote(state, c.Policy)
		state = append(state, ";r="...)
		state = strconv.AppendInt(state, c.Remaining(), 10)
		state = append(state, ";t="...)
		state = strconv.AppendInt(state, RetryAfter, 10)
	}
	h["RateLimit-Policy"] = []string{string(policy)}
	h["RateLimit"] = []string{string(state)}
}
