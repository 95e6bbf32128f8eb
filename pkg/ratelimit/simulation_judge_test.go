package ratelimit_test

import (
	"context"
	"maps"
	"slices"

	"sluice/pkg/ratelimit"
)

func (w *world) judgePrecheck(c *call, d ratelimit.Decision, refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.keyNow(c)
	switch c.limits.Action {
	case ratelimit.ActionBlock:
		w.judgeBlocked(c, d, nil)
		if !refused {
			w.fail("Precheck allows a blocked request: %+v", d)
		}
		return
	case ratelimit.ActionUnlimited:
		if refused {
			w.fail("Precheck refuses an unlimited request: %+v", d)
		}
		return
	}
	known := &c.inst.known
	asDocumented := false
	if known.window == key.Window {
		rules := w.rulesOf(c, c.req.Records)
		if !known.refused[counterID{key, "records"}] {
			rules = w.rulesOf(c, 0) // the export may find no records
		}
		asDocumented = known.excludes(key, rules)
	}
	if refused != asDocumented {
		w.fail("Precheck of %+v in %v: refused %v, but the instance knows %+v", c.req, key.Window, refused, *known)
	}
	if !refused {
		return
	}
	w.tally.prechecked++
	w.judgeRefusal(c, d, key, w.applied.full(key, w.rulesOf(c, c.req.Records)))
	w.judgeLocal(c, d, key)
}

// judgeRefusal checks a refusal, or a decision that would be a refusal without ActionObserve.
// full lists the names of the rules whose limits the request exceeded at the time.
func (w *world) judgeRefusal(c *call, d ratelimit.Decision, key ratelimit.Key, full []string) {
	if len(full) == 0 {
		w.fail("refused although it fits: %+v; the counters are %v", d, w.applied)
	}
	observed := c.limits.Action == ratelimit.ActionObserve
	if d.Allowed != observed || d.Observed != observed || d.Window != key.Window || !observed && d.Remaining() != 0 {
		w.fail("the refusal in window %d under %s is %+v", key.Window, c.limits.Action, d)
	}
	if observed {
		w.tally.observed++
	}
	violated := d.Violated()
	if len(violated) == 0 {
		w.fail("a refusal without violated rules: %+v", d)
	}
	for _, name := range violated {
		if !slices.Contains(full, name) {
			w.fail("refused by %s, but the request exceeds only %v: %+v", name, full, d)
		}
	}
}

// judgeLocal checks that a decision made without the store reports exactly the counters that
// the instance had received from the store earlier.
func (w *world) judgeLocal(c *call, d ratelimit.Decision, key ratelimit.Key) {
	if !d.Local {
		w.fail("not a local decision: %+v", d)
	}
	for _, count := range d.Counts {
		used, told := c.inst.known.used[counterID{key, count.Rule.Counter}]
		if count.Unknown == told || count.Used != used {
			w.fail("the instance knows %v (%v) of %s, the decision is %+v", used, told, count.Rule.Counter, d)
		}
	}
}

func (w *world) judgeBlocked(c *call, d ratelimit.Decision, err error) {
	w.tally.blocked++
	if c.charged || err != nil || d.Allowed || !d.Blocked || d.Remaining() != 0 || d.Violated() != nil || d.Window != w.keyNow(c).Window {
		w.fail("%+v is blocked, the decision is %+v, %v", c.req, d, err)
	}
}

// judge checks a decision as soon as the Limiter returns it; began is the window in which the
// Limiter was called.
func (w *world) judge(c *call, d ratelimit.Decision, err error, began ratelimit.Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.keyNow(c)
	if c.limits.Action == ratelimit.ActionBlock {
		w.judgeBlocked(c, d, err)
		return
	}
	if !sameRules(c.rules, d) {
		w.fail("the rules are %+v, the decision is %+v", c.rules, d)
		return
	}
	if d.Local {
		w.tally.local++
		if c.charged && (!c.refused() || c.key.Window == key.Window) || err != nil || d.Degraded != nil {
			w.fail("a local decision called the store: %+v, %v", d, err)
		}
		w.judgeRefusal(c, d, key, w.applied.full(key, c.rules))
		w.judgeLocal(c, d, key)
		c.inst.known.learnRefusal(key, c.rules)
		return
	}
	if !c.charged || c.attempts == 1 && c.key.Window != began {
		w.fail("a request that began in window %d was charged %d times, last in %+v; the decision is %+v, %v", began, c.attempts, c.key, d, err)
	}
	if c.refused() && c.attempts == 1 && key.Window != c.key.Window {
		w.fail("refused in window %d, although the current window is %d: %+v", c.key.Window, key.Window, d)
	}
	w.judgeWindow(c, d, key.Window)
	d.Window = c.key.Window
	switch {
	case !c.responded:
		w.judgeLost(c, d, err)
	case err != nil || d.Degraded != nil:
		w.fail("the store's result was %+v, the decision is %+v, %v", c.result, d, err)
	default:
		w.judgeResponse(c, d)
		c.inst.known.learn(c, key.Window)
	}
}

// judgeWindow checks that a decision has the window of its charge or, if the clock has jumped,
// the current window. The clock has jumped if the window of the charge is in the future or more
// than three windows old.
func (w *world) judgeWindow(c *call, d ratelimit.Decision, current ratelimit.Window) {
	want := c.key.Window
	if late := current - want; late < 0 || late > 3 {
		w.tally.jumped++
		want = current
	}
	if d.Window != want {
		w.fail("charged in window %d, decided in %d: %+v", c.key.Window, current, d)
	}
}

// judgeResponse checks a decision against the store's result.
func (w *world) judgeResponse(c *call, d ratelimit.Decision) {
	left := int64(1 << 62)
	for i, r := range c.rules {
		if d.Counts[i].Used != c.result.Used[i] || d.Counts[i].Unknown {
			w.fail("%s is %d, the decision is %+v", r.counter, c.result.Used[i], d)
		}
		left = min(left, max(0, r.limit-c.result.Used[i]))
	}
	switch {
	case c.refused():
		w.tally.refused++
		w.judgeRefusal(c, d, c.key, violatedBy(c))
	case !d.Allowed || d.Observed || d.Remaining() != left:
		w.fail("admitted with %d remaining, the decision is %+v", left, d)
	case c.limits.Action == ratelimit.ActionUnlimited:
		w.tally.unlimited++
	}
}

func sameRules(rules []rule, d ratelimit.Decision) bool {
	return slices.EqualFunc(rules, d.Counts, func(r rule, c ratelimit.Count) bool {
		return c.Rule == ratelimit.Rule{Name: r.name, Counter: r.counter, Limit: r.limit} && c.Cost == r.cost
	})
}

// violatedBy returns the names of the rules whose limits the charge exceeds according to the store's
// result.
func violatedBy(c *call) (names []string) {
	for i, r := range c.rules {
		if r.cost > 0 && c.result.Used[i]+r.cost > r.limit {
			names = append(names, r.name)
		}
	}
	return names
}

// judgeLost checks the decision on a charge that got no response from the store.
func (w *world) judgeLost(c *call, d ratelimit.Decision, err error) {
	limited := c.limits.Action == ratelimit.ActionLimit
	if !w.open || c.inst.ctx.Err() != nil { // no fallback, or the instance has crashed
		if !limited {
			w.tally.uncounted++
			if err != nil || !d.Allowed || d.Observed || d.Degraded == nil {
				w.fail("without a response under %s the decision is %+v, %v", c.limits.Action, d, err)
			}
			return
		}
		if err == nil || d.Allowed || d.Remaining() != 0 || d.Degraded != nil {
			w.fail("without a response the decision is %+v, %v", d, err)
		}
		return
	}
	if err != nil || d.Degraded == nil || d.Local {
		w.fail("the decision of the fallback is %+v, %v", d, err)
	}
	full := c.inst.fallback.full(c.key, c.chargedRules())
	if (d.Allowed && !d.Observed) != (full == nil) {
		w.fail("fallback: allowed %v although the violated rules are %v: %+v", d.Allowed, full, d)
	}
	if full != nil {
		w.tally.degradedRefused++
		w.judgeRefusal(c, d, c.key, full)
		return
	}
	w.tally.degradedAllowed++
	c.inst.fallback.add(c.key, c.rules)
}

// learn adds the store's result to k if it belongs to the current window. A Limiter need not
// remember a request that was admitted and exhausted nothing; for such a request, learn only
// updates counters already in k.
func (k *knowledge) learn(c *call, current ratelimit.Window) {
	full := !c.result.Admitted
	for i, r := range c.rules {
		full = full || c.result.Used[i] >= r.limit
	}
	switch {
	case c.key.Window != current, !full && k.window != current:
		return
	case k.window != current:
		*k = knowledge{window: current, used: make(ledger), refused: make(map[counterID]bool)}
	}
	for i, r := range c.rules {
		id := counterID{c.key, r.counter}
		if used, told := k.used[id]; told || full {
			k.used[id] = max(used, c.result.Used[i])
		}
	}
	if !c.result.Admitted {
		k.learnRefusal(c.key, c.rules)
	}
}

// excludes reports whether at least one cost does not fit, according to the counters in k.
func (k *knowledge) excludes(key ratelimit.Key, rules []rule) bool {
	return slices.ContainsFunc(rules, func(r rule) bool {
		used, told := k.used[counterID{key, r.counter}]
		return told && r.cost > 0 && used+r.cost > r.limit
	})
}

func (k *knowledge) learnRefusal(key ratelimit.Key, rules []rule) {
	for _, r := range rules {
		if k.excludes(key, []rule{r}) {
			k.refused[counterID{key, r.counter}] = true
		}
	}
}

// acknowledge is called when a response has reached the client. It adds the costs to w.acked,
// unless the decision is degraded or observed.
func (w *world) acknowledge(c *call, d ratelimit.Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.acknowledged++
	if d.Degraded != nil || d.Observed {
		return // counted in the fallback's ledger, or not at all
	}
	c.acked = true
	w.acked.add(c.key, c.rules)
	for _, r := range c.rules {
		id := counterID{c.key, r.counter}
		if n := w.acked[id]; n > w.highest[id] {
			w.fail("%d of %s admitted in window %d, want at most the highest limit, %d", n, r.counter, c.key.Window, w.highest[id])
		}
	}
}

// audit compares the ledgers with each other and with the store.
func (w *world) audit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := make(ledger)
	maps.Copy(want, w.acked)
	for _, c := range w.calls {
		if c.applied && !c.acked {
			want.add(c.key, c.rules)
		}
	}
	for id := range want {
		if want[id] != w.applied[id] {
			w.fail("%v: %d applied, want %d, the sum of acknowledged and lost charges", id, w.applied[id], want[id])
		}
	}
	for id, n := range w.applied {
		if want[id] != n {
			w.fail("%v: %d applied, want %d, the sum of acknowledged and lost charges", id, n, want[id])
		}
		w.checkStored(id.key, []rule{{counter: id.name}})
	}
}

// checkStored compares the store with w.applied. To read a counter, it charges a cost of 0.
func (w *world) checkStored(key ratelimit.Key, rules []rule) {
	costs := make([]ratelimit.Cost, len(rules))
	for i, r := range rules {
		costs[i].Rule = ratelimit.Rule{Counter: r.counter, Limit: 1}
	}
	result, err := w.store.Charge(context.Background(), key, costs)
	if err != nil {
		w.fail("%v", err)
		return
	}
	for i, r := range rules {
		if want := w.applied[counterID{key, r.counter}]; result.Used[i] != want {
			w.fail("%v: %s is %d, want %d", key, r.counter, result.Used[i], want)
		}
	}
}
