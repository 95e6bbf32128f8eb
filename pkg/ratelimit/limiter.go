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
	// Limits applies to identities for which LimitsFor returns no limits.
	Limits Limits

	// LimitsFor, if not nil, returns the limits of an identity; zero fields in its result are
	// taken from Limits. It is called several times per request and from many goroutines, so it
	// must be fast, safe for concurrent use and free of I/O.
	LimitsFor func(identity string) Limits

	// Fallback, if not nil, is charged when the store fails. With an in-memory fallback, each
	// process counts by itself and admits requests up to the full limit.
	Fallback Store

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Limiter charges each request under the rules of its route. It remembers which counters are
// exhausted, so that it need not call the store to refuse a request that cannot fit. It is safe
// for concurrent use.
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

// LimitsFor returns the current limits of an identity, with every default filled in.
func (l *Limiter) LimitsFor(identity string) Limits {
	if l.limitsFor == nil {
		return l.limits
	}
	return l.limitsFor(identity).Or(l.limits)
}

// Charge charges r in the current window. If r is refused, but that window has ended by then,
// Charge tries once more in the new window.
//
// If the store fails, Charge charges the fallback and sets Decision.Degraded to the store's
// error. If there is no fallback, or it fails too, Charge returns an error and a refusal with
// nothing remaining, so that the headers tell the client to wait. Under ActionUnlimited and
// ActionObserve, the request passes instead, and Decision.Degraded is the error. A store that
// returned an error may still have applied the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	limits := l.LimitsFor(r.Identity)
	key, costs := l.key(r), costs(r, limits)
	if limits.Action == ActionBlock {
		return blocked(key, costs), nil
	}
	d, err := l.decide(ctx, key, costs, limits.Action)
	late := l.window() - key.Window
	if refused := err == nil && d.Degraded == nil && !d.Allowed; refused && late != 0 { // refused in another window; r may fit in the current one
		key.Window += late
		d, err = l.decide(ctx, key, costs, limits.Action)
		late = l.window() - key.Window
	}
	if err != nil && limits.Action != ActionLimit {
		d, err = uncounted(key, costs, err), nil
	}
	if late < 0 || late > maxLate { // the clock jumped, so the client must be told when the current window ends
		d.Window += late
	}
	return d.withAction(limits.Action), err
}

// maxLate is how many windows a decision may lag behind its charge. If it lags more, the clock
// jumped or the process was suspended.
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

// charge sends storeCosts to the store or, if the store fails, to the fallback. The decision
// is based on costs, which may differ from storeCosts only in their limits.
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

// Precheck reports whether an export that has not been read yet is sure to be refused. r.Records
// is the most records that the response can have, or 0 if that is unknown. If refused is true, d
// is the decision, which allows the request only under ActionObserve. Precheck charges nothing
// and does not call the store.
//
// If an export is refused after it was read, the decision shows how many records are left. For
// the rest of the window, Precheck refuses exports that ask for more records than that,
// although they might find fewer.
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

// Uncharged returns a refusal with nothing remaining. It is for requests that cannot be
// charged, for example because their address is invalid.
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
