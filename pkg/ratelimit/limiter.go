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
	// Limits apply to identities for which LimitsFor returns none.
	Limits Limits

	// LimitsFor, if not nil, returns the limits of an identity; Limits replaces its zero fields.
	// It is called several times per request, from many goroutines at once, so it must be fast
	// and do no I/O.
	LimitsFor func(identity string) Limits

	// Fallback, if not nil, is charged when the store fails. With an in-memory fallback, each
	// process admits requests up to the limit by its own count.
	Fallback Store

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Limiter charges each request by the rules of its route: records, imports and requests. It
// remembers exhausted counters, and refuses what cannot fit into them without calling the
// store. It is safe for concurrent use.
type Limiter struct {
	store     Store
	fallback  Store
	limits    Limits
	limitsFor func(identity string) Limits
	now       func() time.Time
	known     known
}

// New returns a Limiter that keeps its counters in store. It fails if store is nil or
// cfg.Limits is out of range; see [Limits.Check].
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

// LimitsFor returns the current limits of an identity, with no zero field.
func (l *Limiter) LimitsFor(identity string) Limits {
	if l.limitsFor == nil {
		return l.limits
	}
	return l.limitsFor(identity).Or(l.limits)
}

// Charge charges r in the current window. If that window ends before the store refuses r,
// Charge charges once more, in the new one.
//
// If the store fails, Charge charges the fallback and sets Decision.Degraded to the store's
// error. If there is no fallback, or it fails too, Charge returns an error and a refusal with
// nothing remaining, so that the headers tell the client to wait. Under ActionUnlimited and
// ActionObserve, the request passes instead, and Decision.Degraded is the error. A store
// that failed may still have applied the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	limits := l.LimitsFor(r.Identity)
	key, costs := l.key(r), costs(r, limits)
	if limits.Action == ActionBlock {
		return blocked(key, costs), nil
	}
	d, err := l.decide(ctx, key, costs, limits.Action)
	late := l.window() - key.Window
	if refused := err == nil && d.Degraded == nil && !d.Allowed; refused && late != 0 { // refused in an earlier window; r may fit into the current one
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

// maxLate is the most windows by which a decision can come after its charge. If it is later,
// the clock jumped or the process was suspended.
const maxLate = 3

// decide charges a request unless it is known not to fit.
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

// charge charges the store or, if that fails, the fallback. The decision reports costs, which
// differ from storeCosts only in their limits.
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

// Precheck reports whether a charge of r is sure to be refused, for exports that have not
// been read yet: r.Records is the most records that the response can have, or 0 if that is
// unknown. If refused is true, d is the decision, which allows the request only under
// ActionObserve. Precheck charges nothing and does not call the store.
//
// When an export is refused after it was read, the decision shows how many records are left.
// For the rest of the window, Precheck refuses exports that ask for more, although they might
// find fewer.
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

// Uncharged returns the Decision for a request that cannot be charged, for example because its
// address is invalid: a refusal with nothing remaining.
func (l *Limiter) Uncharged(r Request) Decision { return exhausted(l.key(r), costs(r, l.limits)) }

func (l *Limiter) key(r Request) Key {
	return Key{Identity: r.Identity, Scope: r.Route.Scope(), Window: l.window()}
}

func (l *Limiter) window() Window { return WindowAt(l.now()) }

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

func unconditional(costs []Cost) []Cost {
	free := slices.Clone(costs)
	for i := range free {
		free[i].Rule.Limit = NoLimit
	}
	return free
}
