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
	// Limits applies where no row sets a limit.
	Limits Limits

	// Fallback, if not nil, is charged when the store fails. With an in-memory fallback, each
	// process counts by itself and admits requests up to the full limit.
	Fallback Store

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Limiter resolves who is counted for a request, and charges the request under the rules of its
// route. It remembers which counters are exhausted, so that it need not call the store to refuse a
// request that cannot fit. It is safe for concurrent use.
type Limiter struct {
	store    Store
	fallback Store
	limits   Limits // the defaults
	now      func() time.Time
	known    known
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
	l := &Limiter{store: store, fallback: cfg.Fallback, now: cfg.Now}
	l.known.current = l.window
	l.limits = cfg.Limits.Or(Limits{Records: DefaultLimit, Imports: DefaultLimit, Requests: DefaultLimit, Action: ActionLimit})
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
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
	action, key, costs := r.Subject.Limits.Action, l.key(r), costs(r)
	if action == ActionBlock {
		return blocked(key, costs), nil
	}
	d, err := l.decide(ctx, key, costs, action)
	late := l.window() - key.Window
	if refused := err == nil && d.Degraded == nil && !d.Allowed; refused && late != 0 { // refused in another window; r may fit in the current one
		key.Window += late
		d, err = l.decide(ctx, key, costs, action)
		late = l.window() - key.Window
	}
	if err != nil && (action == ActionUnlimited || action == ActionObserve) {
		d, err = uncounted(key, costs, err), nil
	}
	if late < 0 || late > maxLate { // the clock jumped, so the client must be told when the current window ends
		d.Window += late
	}
	return d.withAction(action), err
}

// maxLate is how many windows a decision may lag behind its charge. If it lags more, the clock
// jumped or the process was suspended.
const maxLate = 3

// decide charges a request unless it is known not to fit.
func (l *Limiter) decide(ctx context.Context, key Key, costs []Cost, action Action) (Decision, error) {
	if action == ActionUnlimited {
		return l.charge(ctx, key, costs, unconditional(costs))
	}
	if d, refused := l.refuse(key, costs, false); refused {
		l.known.note(key, d)
		return d, nil
	}
	return l.charge(ctx, key, costs, costs)
}

// charge sends storeCosts to the store, with the sums of a key, or, if the store fails, to the
// fallback, which knows no quotas. The decision is based on costs, which may differ from storeCosts only
// in their limits.
func (l *Limiter) charge(ctx context.Context, key Key, costs, storeCosts []Cost) (Decision, error) {
	result, err := l.store.Charge(ctx, key, withSums(key, storeCosts))
	if err == nil {
		d := newDecision(key, costs, result)
		l.known.note(key, d)
		return d, nil
	}
	err = fmt.Errorf("charge: %w", err)
	if l.fallback == nil {
		return exhausted(key, costs), err
	}
	result, fallbackErr := l.fallback.Charge(ctx, key, perSecond(storeCosts))
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
	action, key, costs := r.Subject.Limits.Action, l.key(r), costs(r)
	switch action {
	case ActionBlock:
		return blocked(key, costs), true
	case ActionUnlimited:
		return Decision{}, false
	}
	d, refused = l.refuse(key, costs, true)
	return d.withAction(action), refused
}

// refuse refuses a request that is known not to fit where the store would count it.
func (l *Limiter) refuse(key Key, costs []Cost, unread bool) (Decision, bool) {
	at := key.Window
	if p, ok := l.store.(Placer); ok {
		at = p.Place(key)
	}
	return l.known.refuse(key, at, costs, unread)
}

// Uncharged returns a refusal with nothing remaining, under the default limits. It is for requests
// that cannot be charged, for example because their address is invalid.
func (l *Limiter) Uncharged(route Route) Decision {
	r := Request{Subject: Subject{Limits: l.limits}, Route: route}
	return exhausted(l.key(r), costs(r))
}

func (l *Limiter) key(r Request) Key {
	return Key{Identity: r.Subject.Identity, Group: r.Route.Group(), Window: l.window()}
}

func (l *Limiter) window() Window { return WindowAt(l.now()) }

// costs returns the costs of a request, those of quotas last.
func costs(r Request) []Cost {
	limits := r.Subject.Limits
	requests := Cost{Rule{Name: RuleRequests, Counter: r.Route.counter(), Limit: limits.Requests}, 1}
	var all []Cost
	switch r.Route.Class {
	case Export:
		all = []Cost{{Rule{Name: RuleRecords, Counter: RuleRecords, Limit: limits.Records}, r.Records}, requests}
	case Import:
		all = []Cost{{Rule{Name: RuleImports, Counter: RuleImports, Limit: limits.Imports}, 1}, requests}
	default:
		return []Cost{requests}
	}
	if r.Subject.ByKey() {
		all = append(all, limits.costs(all[0].Rule.Counter, all[0].Amount)...)
	}
	return all
}

// perSecond returns costs without those of quotas.
func perSecond(costs []Cost) []Cost {
	n := slices.IndexFunc(costs, func(c Cost) bool { return c.Rule.Period != Second })
	if n < 0 {
		return costs
	}
	return slices.Clip(costs[:n])
}

// withSums adds to the costs of a key what it uses in a day and a month, where no quota counts that.
func withSums(key Key, costs []Cost) []Cost {
	if _, ok := KeyID(key.Identity); !ok {
		return costs
	}
	all := slices.Clip(costs)
	for _, c := range perSecond(costs) {
		if c.Rule.Name == RuleRequests {
			continue
		}
		for _, p := range []Period{Day, Month} {
			counted := func(other Cost) bool { return other.Rule.Counter == c.Rule.Counter && other.Rule.Period == p }
			if !slices.ContainsFunc(costs, counted) {
				all = append(all, Cost{Rule{c.Rule.Name, c.Rule.Counter, p, NoLimit}, c.Amount})
			}
		}
	}
	return all
}

func unconditional(costs []Cost) []Cost {
	free := slices.Clone(costs)
	for i := range free {
		free[i].Rule.Limit = NoLimit
	}
	return free
}
