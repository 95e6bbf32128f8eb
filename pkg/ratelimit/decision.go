package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is the number of whole seconds after which a refused client may
// retry: the length of a window. A window usually ends sooner, but Retry-After
// cannot be a fraction, and on 0 clients retry at once.
const RetryAfter = int(WindowLength / time.Second)

// Decision says whether a request may pass and how it stands with each rule. A
// refusal is a Decision, not an error.
type Decision struct {
	Allowed  bool
	Blocked  bool    // refused by ActionBlock, not by a rule
	Observed bool    // the rules have no room, but ActionObserve lets the request pass; it is not counted
	Local    bool    // decided without calling the store
	Window   Window  // in which the request was counted; the current one if the clock has jumped since
	Counts   []Count // one for each rule that applies to the request, at least one
	Degraded error   // why the store could not decide, if the fallback or the action did; else nil
}

// Count is how a request stands with one rule.
type Count struct {
	Rule Rule
	Cost int64 // of the request
	Used int64 // value of the counter, including Cost if the request was allowed; if Local, as last seen

	// Unknown reports that the value is not known, and Used is 0.
	Unknown bool
}

func (c Count) fits() bool       { return c.Rule.Fits(c.Used, c.Cost) }
func (c Count) remaining() int64 { return c.Rule.Remaining(c.Used) }

// newDecision returns the Decision that a store's result stands for.
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

// under returns d under an action: ActionUnlimited and ActionObserve let every
// request pass.
func (d Decision) under(action Action) Decision {
	if action == ActionObserve {
		d.Observed = !d.Allowed
	}
	d.Allowed = d.Allowed || d.Observed || action == ActionUnlimited
	return d
}

// uncounted returns the decision on a request that passes although no store
// could count it.
func uncounted(key Key, costs []Cost, err error) Decision {
	used := make([]int64, len(costs))
	for i, c := range costs {
		used[i] = c.Amount
	}
	d := newDecision(key, costs, Result{Admitted: true, Used: used})
	d.Degraded = err
	return d
}

// blocked returns the refusal of a blocked address.
func blocked(key Key, costs []Cost) Decision {
	d := exhausted(key, costs)
	d.Blocked, d.Local = true, true
	return d
}

// exhausted returns a refusal with nothing remaining.
func exhausted(key Key, costs []Cost) Decision {
	used := make([]int64, len(costs))
	for i, c := range costs {
		used[i] = c.Rule.Limit
	}
	return newDecision(key, costs, Result{Used: used})
}

// Remaining returns the smallest remainder among the rules: at most that many
// further requests can pass in this window. It is 0 for a refusal.
func (d Decision) Remaining() int64 {
	if !d.Allowed {
		return 0
	}
	return d.tightest().remaining()
}

// tightest returns the count with the smallest remainder; of equal ones, the
// one with the smallest limit.
func (d Decision) tightest() Count {
	return slices.MinFunc(d.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.remaining(), b.remaining()), cmp.Compare(a.Rule.Limit, b.Rule.Limit))
	})
}

// Violated returns the policies of the rules that have no room for the request,
// in the order of Counts. It is nil if the request was allowed, unless it is
// Observed, and if it was blocked.
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

// The last parameters of the items of RateLimit-Policy and RateLimit, in seconds.
var (
	windowParameter = ";w=" + strconv.Itoa(int(WindowLength/time.Second))
	resetParameter  = ";t=" + strconv.Itoa(RetryAfter)
)

// SetHeaders sets the rate limit headers: X-RateLimit-Limit, -Remaining and
// -Reset (Unix seconds) of the tightest rule, and RateLimit-Policy and RateLimit
// of every rule whose counter is known (draft-ietf-httpapi-ratelimit-headers-10).
// It stores the names in the case shown here; http.Header.Get does not find the
// first three.
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
