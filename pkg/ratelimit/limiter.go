package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config tunes a Limiter. Its zero value is ready to use.
type Config struct {
	// Limits holds the default limits. They apply to an identity if LimitsFor returns no
	// other limits.
	Limits Limits

	// LimitsFor, if not nil, returns the limits of an identity. A zero field of the
	// result is replaced by the same field of Limits. LimitsFor is called several times
	// per request, from many goroutines at once, so it must be fast and do no I/O.
	LimitsFor func(identity string) Limits

	// Fallback, if not nil, is charged when the store fails. If it is in memory, each
	// process then counts only its own requests and admits them up to the limit.
	Fallback Store

	// Now returns the current time. If it is nil, time.Now is used.
	Now func() time.Time
}

// Limiter charges each request by the rules of its route: records, imports and requests.
// It remembers exhausted counters. If a request cannot fit into such a counter, the
// Limiter refuses the request at once, without calling the store. A Limiter is safe for
// concurrent use.
type Limiter struct {
	store     Store
	fallback  Store
	limits    Limits
	limitsFor func(identity string) Limits
	now       func() time.Time
	known     known
}

// New returns a Limiter that keeps its counters in store. It returns an error if
// store is nil or if cfg.Limits is out of range; see [Limits.Check].
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	if _, err := cfg.Limits.Check(0); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	l := &Limiter{store: store, fallback: cfg.Fallback, limitsFor: cfg.LimitsFor, now: cfg.Now}
	l.known.current = l.window
	l.limits = cfg.Limits.Or(Limits{Records: DefaultLimit, Imports: DefaultLimit, Requests: DefaultLimit, Action: ActionLimit})
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
}

// LimitsFor returns the current limits of an identity. No field is zero.
func (l *Limiter) LimitsFor(identity string) Limits {
	if l.limitsFor == nil {
		return l.limits
	}
	return l.limitsFor(identity).Or(l.limits)
}

// Charge charges r in the current window. If the window ends before the store
// refuses the request, Charge charges it once more, in the new current window.
//
// If the store fails, Charge charges the fallback and sets Decision.Degraded to
// the store's error. If there is no fallback, or the fallback fails too, Charge
// returns an error and a refusal with nothing remaining, so that the headers tell
// the client to wait. Under ActionUnlimited and ActionObserve it allows the
// request instead, and sets Decision.Degraded to the error. In all these cases
// the store may have applied the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	limits := l.LimitsFor(r.Identity)
	key, costs := l.key(r), costs(r, limits)
	if limits.Action == ActionBlock {
		return blocked(key, costs), nil
	}
	d, err := l.decide(ctx, key, costs, limits.Action)
	late := l.window() - key.Window
	if refused := err == nil && d.Degraded == nil && !d.Allowed; refused && late != 0 { // the charge was refused in another window, and r may fit into the current window
		key.Window += late
		d, err = l.decide(ctx, key, costs, limits.Action)
		late = l.window() - key.Window
	}
	if err != nil && limits.Action != ActionLimit {
		d, err = uncounted(key, costs, err), nil
	}
	if late < 0 || late > maxLate { // the clock jumped, so the client needs the end of the current window
		d.Window += late
	}
	return d.withAction(limits.Action), err
}

// maxLate is the maximum number of windows between a charge and its decision. A larger number
// means that the clock jumped or the process was stopped.
const maxLate = 3

// decide refuses a request if the Limiter knows that the request does not fit. Otherwise
// decide charges the request.
func (l *Limiter) decide(ctx context.Context, key Key, costs []Cost, action Action) (Decision, error) {
	if action == ActionUnlimited {
		return l.charge(ctx, key, costs, unconditional(costs))
	}
	if d, refused := l.known.refuse(key, costs, false); refused {
		l.known.note(key, d)
		return d, nil
	}
	return l.charge(ctx, key, costs, costs)
}

// charge charges the store or, if the store fails, the fallback. It charges storeCosts
// and shows costs in the returned decision. storeCosts and costs differ only in the
// limits.
func (l *Limiter) charge(ctx context.Context, key Key, costs, storeCosts []Cost) (Decision, error) {
	result, err := l.store.Charge(ctx, key, storeCosts)
	if err == nil {
		d := newDecision(key, costs, result)
		l.known.note(key, d)
		return d, nil
	}
	err = fmt.Errorf("charge: %w", err)
	if l.fallback == nil {
		return exhausted(key, costs), err
	}
	result, fallbackErr := l.fallback.Charge(ctx, key, storeCosts)
	if fallbackErr != nil {
		return exhausted(key, costs), errors.Join(err, fmt.Errorf("charge the fallback: %w", fallbackErr))
	}
	d := newDecision(key, costs, result)
	d.Degraded = err
	return d, nil
}

// Precheck reports whether the Limiter knows that a charge of r would be refused. It is
// for exports that have not been read yet: r.Records is the most records that the
// response can have, or 0 if that is unknown. If refused is true, d is the decision,
// which allows the request only under ActionObserve. Precheck charges nothing and does
// not call the store.
//
// When an export is refused after it was read, the decision shows how many more records
// the limit allows. For the rest of the window, Precheck refuses every export that asks
// for more records than this number, although the export might find fewer records.
func (l *Limiter) Precheck(r Request) (d Decision, refused bool) {
	limits := l.LimitsFor(r.Identity)
	key, costs := l.key(r), costs(r, limits)
	switch limits.Action {
	case ActionBlock:
		return blocked(key, costs), true
	case ActionUnlimited:
		return Decision{}, false
	}
	d, refused = l.known.refuse(key, costs, true)
	return d.withAction(limits.Action), refused
}

// Uncharged returns the Decision about a request that cannot be charged, for
// example because its address is invalid. It is a refusal with nothing remaining.
func (l *Limiter) Uncharged(r Request) Decision { return exhausted(l.key(r), costs(r, l.limits)) }

// key returns the key of r's counters in the current window.
func (l *Limiter) key(r Request) Key {
	return Key{Identity: r.Identity, Scope: r.Route.Scope(), Window: l.window()}
}

// window returns the current window.
func (l *Limiter) window() Window { return WindowAt(l.now()) }

// costs returns one Cost for each rule that applies to r.
func costs(r Request, limits Limits) []Cost {
	requests := Cost{Rule{PolicyRequests, r.Route.counter(), limits.Requests}, 1}
	switch r.Route.Class {
	case Export:
		return []Cost{{Rule{PolicyRecords, PolicyRecords, limits.Records}, r.Records}, requests}
	case Import:
		return []Cost{{Rule{PolicyImports, PolicyImports, limits.Imports}, 1}, requests}
	default:
		return []Cost{requests}
	}
}

// unconditional returns a copy of costs without limits.
func unconditional(costs []Cost) []Cost {
	free := slices.Clone(costs)
	for i := range free {
		free[i].Rule.Limit = NoLimit
	}
	return free
}
