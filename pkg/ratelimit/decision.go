package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is the number of seconds in the Retry-After header of a 429 or 503
// response. It is the length of a window. The window usually ends sooner, but the
// header cannot hold a fraction (RFC 9110, section 10.2.3), and 0 would make
// clients retry at once.
const RetryAfter = int(WindowLength / time.Second)

// Decision says whether a request may pass, and shows the counter of each rule
// that applies to it. A refusal is a Decision, not an error.
type Decision struct {
	Allowed  bool    // whether the request may pass
	Blocked  bool    // refused by ActionBlock, not by a rule
	Observed bool    // the request is over a limit, but ActionObserve allowed it without counting it
	Local    bool    // decided without calling the store
	Window   Window  // window of the charge, or the current window if the clock jumped after the charge
	Counts   []Count // one for each rule that applies to the request, at least one
	Degraded error   // the store's error if the fallback or the action made the decision; otherwise nil
}

// Count shows the counter of one rule, and the cost of a request under that rule.
type Count struct {
	Rule Rule
	Cost int64 // cost of the request

	// Used is the value of the counter. It includes Cost, unless the request was refused
	// or Decision.Observed is true. If Decision.Local is true, Used is the last known
	// value.
	Used int64

	// Unknown means that the value of the counter is not known. Used is then 0.
	Unknown bool
}

func (c Count) fits() bool       { return c.Rule.Fits(c.Used, c.Cost) }
func (c Count) remaining() int64 { return c.Rule.remaining(c.Used) }

// newDecision returns the Decision for the result of a charge.
func newDecision(key Key, costs []Cost, result Result) Decision {
	d := Decision{Allowed: result.Admitted, Window: key.Window, Counts: make([]Count, len(costs))}
	for i, c := range costs {
		d.Counts[i] = Count{Rule: c.Rule, Cost: c.Amount, Unknown: result.Used == nil}
		if result.Used != nil {
			d.Counts[i].Used = result.Used[i]
		}
	}
	return d
}

// withAction applies action to d. ActionUnlimited and ActionObserve allow every
// request.
func (d Decision) withAction(action Action) Decision {
	if action == ActionObserve {
		d.Observed = !d.Allowed
	}
	d.Allowed = d.Allowed || d.Observed || action == ActionUnlimited
	return d
}

// uncounted returns the Decision for a request that is allowed although no store could
// count it.
func uncounted(key Key, costs []Cost, err error) Decision {
	used := make([]int64, len(costs))
	for i, c := range costs {
		used[i] = c.Amount
	}
	d := newDecision(key, costs, Result{Admitted: true, Used: used})
	d.Degraded = err
	return d
}

// blocked returns the refusal of a blocked identity.
func blocked(key Key, costs []Cost) Decision {
	d := exhausted(key, costs)
	d.Blocked, d.Local = true, true
	return d
}

// exhausted returns a refusal in which all counters have reached their limits.
func exhausted(key Key, costs []Cost) Decision {
	used := make([]int64, len(costs))
	for i, c := range costs {
		used[i] = c.Rule.Limit
	}
	return newDecision(key, costs, Result{Used: used})
}

// Remaining returns the smallest remainder among the rules, or 0 for a refusal.
func (d Decision) Remaining() int64 {
	if !d.Allowed {
		return 0
	}
	return d.tightest().remaining()
}

// tightest returns the count with the smallest remainder. Among counts with the same
// remainder, it returns the one with the smallest limit.
func (d Decision) tightest() Count {
	return slices.MinFunc(d.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.remaining(), b.remaining()), cmp.Compare(a.Rule.Limit, b.Rule.Limit))
	})
}

// Violated returns the policies of the rules whose limits the request exceeds, in the
// order of Counts. It returns nil if the request was blocked, or if the request was
// allowed and d.Observed is false.
func (d Decision) Violated() []string {
	if d.Allowed && !d.Observed || d.Blocked {
		return nil
	}
	var policies []string
	for _, c := range d.Counts {
		if !c.fits() {
			policies = append(policies, c.Rule.Policy)
		}
	}
	return policies
}

// Each item in RateLimit-Policy ends with windowParameter, the length of the window.
// Each item in RateLimit ends with resetParameter, the time until the reset. Both are
// in seconds.
var (
	windowParameter = ";w=" + strconv.Itoa(int(WindowLength/time.Second))
	resetParameter  = ";t=" + strconv.Itoa(RetryAfter)
)

// SetHeaders sets the rate limit headers. X-RateLimit-Limit, X-RateLimit-Remaining
// and X-RateLimit-Reset (Unix time in seconds) describe the rule with the smallest
// remainder. RateLimit-Policy lists every rule. RateLimit lists every rule whose
// counter is known. Source: draft-ietf-httpapi-ratelimit-headers-10.
//
// The header names have the case shown here. The names with X- are not in the canonical
// form of net/http, so http.Header.Get does not find them.
func (d Decision) SetHeaders(h http.Header) {
	var policies, states []string
	for _, c := range d.Counts {
		policies = append(policies, strconv.Quote(c.Rule.Policy)+";q="+strconv.FormatInt(c.Rule.Limit, 10)+windowParameter)
		if !c.Unknown {
			states = append(states, strconv.Quote(c.Rule.Policy)+";r="+strconv.FormatInt(c.remaining(), 10)+resetParameter)
		}
	}
	h["X-RateLimit-Limit"] = []string{strconv.FormatInt(d.tightest().Rule.Limit, 10)}
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(d.Remaining(), 10)}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt(d.Window.Reset(), 10)}
	h["RateLimit-Policy"] = []string{strings.Join(policies, ", ")}
	if len(states) > 0 {
		h["RateLimit"] = []string{strings.Join(states, ", ")}
	}
}
