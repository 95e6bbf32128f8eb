package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is the Retry-After header of a 503, and of a 429 that no quota causes, in seconds: the length of
// a window. The window usually ends sooner, but the header cannot hold a fraction (RFC 9110, section
// 10.2.3), and 0 would make clients retry immediately.
const RetryAfter = int(WindowLength / time.Second)

// maxRetryAfter is the highest Retry-After, in seconds: clients may take a longer one for an error.
const maxRetryAfter = 86_400

// Decision says whether a request may pass, and holds the counter of each rule that applies. A
// refusal is a Decision, not an error.
type Decision struct {
	Allowed  bool
	Blocked  bool    // refused by ActionBlock, not by a rule
	Observed bool    // over a limit, but ActionObserve allowed it without counting it
	Local    bool    // decided without calling the store
	Window   Window  // window of the charge, or the current window if the clock has jumped since the charge
	Counts   []Count // one for each rule that applies; never empty
	Degraded error   // why the store failed; set only if the fallback or the action decided instead
}

// Count is the state of one rule's counter, and the cost of the request under that rule.
type Count struct {
	Rule Rule
	Cost int64

	// Used is the counter's value. It includes Cost unless the request was refused or observed.
	// If Decision.Local is true, Used is the last known value (for a blocked request, the limit).
	Used int64

	// Unknown means that the counter's value is not known; Used is then 0.
	Unknown bool
}

func (c Count) fits() bool       { return c.Rule.Fits(c.Used, c.Cost) }
func (c Count) remaining() int64 { return c.Rule.remaining(c.Used) }

func newDecision(key Key, costs []Cost, result Result) Decision {
	d := Decision{Allowed: result.Admitted, Window: cmp.Or(result.Window, key.Window), Counts: make([]Count, len(costs))}
	for i, c := range costs {
		d.Counts[i] = Count{Rule: c.Rule, Cost: c.Amount, Unknown: i >= len(result.Used)}
		if i < len(result.Used) {
			d.Counts[i].Used = result.Used[i]
		}
	}
	return d
}

func (d Decision) withAction(action Action) Decision {
	if action == ActionObserve {
		d.Observed = !d.Allowed
	}
	d.Allowed = d.Allowed || d.Observed || action == ActionUnlimited
	return d
}

// uncounted returns the Decision for a request that passes although it could not be counted.
func uncounted(key Key, costs []Cost, err error) Decision {
	var used []int64
	for _, c := range perSecond(costs) {
		used = append(used, c.Amount)
	}
	d := newDecision(key, costs, Result{Admitted: true, Used: used})
	d.Degraded = err
	return d
}

func blocked(key Key, costs []Cost) Decision {
	d := exhausted(key, costs)
	d.Blocked, d.Local = true, true
	return d
}

// exhausted returns a refusal in which every counter is at its limit. Those of quotas are unknown, so that
// no client waits until they end.
func exhausted(key Key, costs []Cost) Decision {
	var used []int64
	for _, c := range perSecond(costs) {
		used = append(used, c.Rule.Limit)
	}
	return newDecision(key, costs, Result{Used: used})
}

// Remaining returns the smallest amount that any rule has left, or 0 for a refusal.
func (d Decision) Remaining() int64 {
	if !d.Allowed {
		return 0
	}
	return d.tightest().remaining()
}

// tightest returns the count with the least remaining, of a refusal only among those that the request
// exceeds. In a tie, the one with the longest period wins, then the one with the smallest limit. A quota
// of which nothing is known is not considered.
func (d Decision) tightest() (tightest Count) {
	exceeds := func(c Count) bool { return !c.fits() }
	refused := !d.Allowed && slices.ContainsFunc(d.Counts, exceeds)
	first := true
	for _, c := range d.Counts {
		if c.fits() && (refused || c.Unknown && c.Rule.Period != Second) {
			continue
		}
		if first || c.compare(tightest) < 0 {
			tightest, first = c, false
		}
	}
	return tightest
}

func (c Count) compare(other Count) int {
	return cmp.Or(cmp.Compare(c.remaining(), other.remaining()), cmp.Compare(other.Rule.Period, c.Rule.Period), cmp.Compare(c.Rule.Limit, other.Rule.Limit))
}

// Quota returns the count of the quota that the request exceeds, of several the one that ends last. ok is
// false if it exceeds none.
func (d Decision) Quota() (c Count, ok bool) {
	for _, one := range d.Counts {
		if one.Rule.Period != Second && !one.fits() && (!d.Allowed || d.Observed) && one.Rule.Period >= c.Rule.Period {
			c, ok = one, true
		}
	}
	return c, ok
}

// Left returns how much is left of the limit; at least 0.
func (c Count) Left() int64 { return c.remaining() }

// End returns when the period of c, one of d.Counts, ends, in Unix time.
func (d Decision) End(c Count) int64 { return int64(c.Rule.Period.End(d.Window)) }

// RetryAfter returns the number of seconds after which a request that d refuses may fit, at most a day.
func (d Decision) RetryAfter() int {
	if c, ok := d.Quota(); ok {
		return min(c.Rule.Period.seconds(d.Window), maxRetryAfter)
	}
	return RetryAfter
}

// Violated returns the names of the rules whose limits the request exceeds, in the order of
// Counts. It returns nil if the request is blocked, or if it is allowed and Observed is false.
func (d Decision) Violated() []string {
	if d.Allowed && !d.Observed || d.Blocked {
		return nil
	}
	var rules []string
	for _, c := range d.Counts {
		if !c.fits() {
			rules = append(rules, c.Rule.Name)
		}
	}
	return rules
}

// SetHeaders sets X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (Unix time in
// seconds) for the rule with the least remaining. It also sets two headers from
// draft-ietf-httpapi-ratelimit-headers-10: RateLimit-Policy lists every rule, and RateLimit
// lists every rule whose counter is known. In RateLimit-Policy, w is the length of the rule's period; in
// RateLimit, t is the time until it ends, rounded up. Both are in seconds.
//
// The names keep the case shown here, which is not the canonical form of net/http, so
// http.Header.Get does not find them.
func (d Decision) SetHeaders(h http.Header) {
	var policies, states []string
	for _, c := range d.Counts {
		name, p := strconv.Quote(c.Rule.Name), c.Rule.Period
		policies = append(policies, name+";q="+strconv.FormatInt(c.Rule.Limit, 10)+";w="+strconv.Itoa(p.seconds(p.Start(d.Window))))
		if !c.Unknown {
			states = append(states, name+";r="+strconv.FormatInt(c.remaining(), 10)+";t="+strconv.Itoa(p.seconds(d.Window)))
		}
	}
	tightest := d.tightest()
	h["X-RateLimit-Limit"] = []string{strconv.FormatInt(tightest.Rule.Limit, 10)}
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(d.Remaining(), 10)}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt(d.End(tightest), 10)}
	h["RateLimit-Policy"] = []string{strings.Join(policies, ", ")}
	if len(states) > 0 {
		h["RateLimit"] = []string{strings.Join(states, ", ")}
	}
}
