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
	// Limits holds for every address, unless LimitsFor says otherwise.
	Limits Limits

	// LimitsFor, if not nil, returns the limits of an address. Limits takes the
	// place of fields that are zero. It is called several times per request, by
	// many goroutines at once, so it must be fast and do no I/O.
	LimitsFor func(address string) Limits

	// Fallback, if not nil, decides when the store fails, by its own counters:
	// with a memstore, each process admits up to the limit.
	Fallback Store

	// Now returns the time of a charge. If it is nil, time.Now is used.
	Now func() time.Time
}

// Limiter charges requests by the service's three rules. It remembers exhausted
// counters and refuses requests that cannot fit without calling the store. It is
// safe for concurrent use.
type Limiter struct {
	store     Store
	fallback  Store
	limits    Limits
	limitsFor func(address string) Limits
	now       func() time.Time
	known     known
}

// New returns a Limiter over store. It fails if Config.Limits is out of range
// (Limits.Check).
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	if _, err := cfg.Limits.Check(0); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	l := &Limiter{store: store, fallback: cfg.Fallback, limitsFor: cfg.LimitsFor, now: cfg.Now}
	l.limits = cfg.Limits.Or(Limits{Records: DefaultLimit, Imports: DefaultLimit, Requests: DefaultLimit, Action: ActionLimit})
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
}

// Limits returns the limits of addresses that Config.LimitsFor does not change.
func (l *Limiter) Limits() Limits { return l.limits }

// LimitsFor returns the limits in force for an address. No field is zero.
func (l *Limiter) LimitsFor(address string) Limits {
	if l.limitsFor == nil {
		return l.limits
	}
	return l.limitsFor(address).Or(l.limits)
}

// Charge charges r in the current window.
//
// If the store fails, the fallback decides, and the Decision's Degraded is the
// store's error. If there is no fallback, or it fails too, Charge returns an
// error and a refusal with nothing remaining, so that its headers tell clients
// to wait; under ActionUnlimited and ActionObserve the request passes instead,
// and Degraded is the error. In any of these cases the store may have applied
// the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	limits := l.LimitsFor(r.Address)
	key, costs := l.key(r), costs(r, limits)
	if limits.Action == ActionBlock {
		return blocked(key, costs), nil
	}
	if d, refused := l.refuse(key, costs, limits.Action, false); refused {
		l.known.note(key, d)
		return d, nil
	}
	result, degraded, err := l.charge(ctx, key, costs, limits.Action)
	switch {
	case err == nil:
	case limits.Action == ActionLimit:
		return exhausted(key, costs), err
	default:
		degraded, result = err, uncounted(costs)
	}
	d := newDecision(key, costs, result)
	d.Degraded = degraded
	if degraded == nil && d.Remaining() == 0 {
		l.known.note(key, d)
	}
	return d.under(limits.Action), nil
}

// charge charges the store or, if it fails, the fallback; degraded is then the
// store's error.
func (l *Limiter) charge(ctx context.Context, key Key, costs []Cost, action Action) (result Result, degraded, err error) {
	if action == ActionUnlimited {
		costs = slices.Clone(costs)
		for i := range costs {
			costs[i].Rule.Limit = NoLimit
		}
	}
	if result, err = l.store.Charge(ctx, key, costs); err == nil {
		return result, nil, nil
	}
	err = fmt.Errorf("charge: %w", err)
	if l.fallback == nil {
		return Result{}, nil, err
	}
	result, fallbackErr := l.fallback.Charge(ctx, key, costs)
	if fallbackErr != nil {
		return Result{}, nil, errors.Join(err, fmt.Errorf("charge: %w", fallbackErr))
	}
	return result, err, nil
}

// refuse returns the decision on a request that is known not to fit, if it is.
func (l *Limiter) refuse(key Key, costs []Cost, action Action, unread bool) (d Decision, refused bool) {
	if action == ActionUnlimited {
		return Decision{}, false
	}
	used, refused := l.known.refuses(key, costs, unread)
	d = newDecision(key, costs, Result{Used: used})
	d.Local = refused
	return d.under(action), refused
}

// Precheck reports whether r, an export that has not been read yet, is known to
// be refused; if so, d is the decision, which allows the request only under
// ActionObserve. It ignores r.Records, charges nothing and does not call the
// store.
//
// An export that was read and then refused tells how many records are left.
// After that, Precheck refuses exports that ask for more in that window, even
// though they might find few enough to pass.
func (l *Limiter) Precheck(r Request) (d Decision, refused bool) {
	r.Records = r.Asked
	limits := l.LimitsFor(r.Address)
	key, costs := l.key(r), costs(r, limits)
	if limits.Action == ActionBlock {
		return blocked(key, costs), true
	}
	return l.refuse(key, costs, limits.Action, true)
}

// Uncharged returns the Decision for a request that cannot be charged, such as
// one without a valid address: a refusal with nothing remaining.
func (l *Limiter) Uncharged(r Request) Decision { return exhausted(l.key(r), costs(r, l.limits)) }

// key returns the key of r's counters in the current window.
func (l *Limiter) key(r Request) Key {
	return Key{Address: r.Address, Scope: r.Route.Scope(), Window: WindowAt(l.now())}
}

// costs returns the cost of r by each rule that applies to it.
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
