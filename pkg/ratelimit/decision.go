package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// Decision says whether a request may pass and how its rules stand. A refusal
// is a Decision, not an error.
type Decision struct {
	Allowed  bool
	Local    bool // refused by what was known, without asking the store; Used is as last seen
	Window   Window
	Rules    []Rule  // those that apply to the request, one or two; not to be changed
	Cost     Amounts // of the request, by rule
	Used     Amounts // what counts against each rule's limit, the request included if it was allowed
	Degraded error   // why the store could not tell, where the fallback decided in its place; nil otherwise
}

// exhaust shows every limit as used up.
func (d *Decision) exhaust() {
	for i := range d.Rules {
		d.Used.Set(i, d.Rules[i].Limit)
	}
}

// RetryAfter is how many whole seconds to wait for a new window, rounded up:
// 1, since a window lasts a second. Clients in the field retry at once on 0
// and fail on a fraction.
const RetryAfter = 1

// Remaining is the smallest remainder among the rules: no more than that many
// further requests can pass in this window. It is 0 on a refusal.
func (d *Decision) Remaining() int64 {
	if !d.Allowed {
		return 0
	}
	return d.remaining(d.tightest())
}

// remaining is what is left of the rule with that index.
func (d *Decision) remaining(rule int) int64 { return d.Rules[rule].Remaining(d.Used.At(rule)) }

// tightest is the rule with the smallest remainder; of equal ones the one with
// the smallest limit.
func (d *Decision) tightest() int {
	if len(d.Rules) == 1 {
		return 0
	}
	switch first, second := d.remaining(0), d.remaining(1); {
	case second < first, second == first && d.Rules[1].Limit < d.Rules[0].Limit:
		return 1
	}
	return 0
}

// fits reports whether all rules have room for their costs beyond Used.
func (d *Decision) fits() bool {
	for i := range d.Rules {
		if !d.Rules[i].Fits(d.Used.At(i), d.Cost.At(i)) {
			return false
		}
	}
	return true
}

// Violated names the rules that had no room, in the order of Rules. It is nil
// when the request was allowed.
func (d *Decision) Violated() []string {
	if d.Allowed {
		return nil
	}
	var policies []string
	for i := range d.Rules {
		if !d.Rules[i].Fits(d.Used.At(i), d.Cost.At(i)) {
			policies = append(policies, d.Rules[i].Policy)
		}
	}
	return policies
}

// SetHeaders writes how the rules stand: X-RateLimit-Limit, -Remaining and
// -Reset (Unix seconds) for the tightest rule, and RateLimit-Policy and
// RateLimit for every rule (draft-ietf-httpapi-ratelimit-headers-10). The
// first three are stored under the case of their specification, which is not
// the one that http.Header.Get looks up.
func (d *Decision) SetHeaders(h http.Header) {
	// All values are parts of one text, and the lists that hold them of one list.
	text := make([]byte, 0, 256)
	var ends [len(headerNames)]int
	text = strconv.AppendInt(text, d.Rules[d.tightest()].Limit, 10)
	ends[0] = len(text)
	text = strconv.AppendInt(text, d.Remaining(), 10)
	ends[1] = len(text)
	text = strconv.AppendInt(text, d.Window.Reset(), 10)
	ends[2] = len(text)
	for i := range d.Rules {
		text = appendItem(text, i, d.Rules[i].Policy, ";q=", d.Rules[i].Limit, ";w=", int64(WindowLength/time.Second))
	}
	ends[3] = len(text)
	for i := range d.Rules {
		text = appendItem(text, i, d.Rules[i].Policy, ";r=", d.remaining(i), ";t=", RetryAfter)
	}
	ends[4] = len(text)

	all, from := string(text), 0
	values := make([]string, len(ends))
	for i, name := range headerNames {
		values[i] = all[from:ends[i]]
		h[name] = values[i : i+1 : i+1]
		from = ends[i]
	}
}

// headerNames are what SetHeaders sets, in that order.
var headerNames = [...]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"}

// appendItem appends the ith string of a list with two parameters (RFC 9651).
func appendItem(b []byte, i int, item, name1 string, value1 int64, name2 string, value2 int64) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	b = strconv.AppendQuote(b, item)
	b = strconv.AppendInt(append(b, name1...), value1, 10)
	return strconv.AppendInt(append(b, name2...), value2, 10)
}
