package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config tunes a Limiter. Its zero value is ready to use.
type Config struct {
	Limits  Limits
	Timeout time.Duration // longest wait for a store that is not Immediate; 2 seconds by default

	// Fallback decides what the store cannot, by counters of its own: a store
	// in memory admits up to the limit per process. Nil, the default, refuses
	// instead.
	Fallback Store

	Now func() time.Time // the clock that places a charge in a window; the system's by default
}

// Limiter charges requests by the service's three rules. It remembers what the
// store has refused in the running second, and refuses what that excludes
// without asking again, unless the store is Immediate and costs no more to ask.
// It is safe for concurrent use.
type Limiter struct {
	store    Store
	fallback Store
	limits   Limits
	timeout  time.Duration // 0: the store is Immediate
	clock    *clock
	known    known
}

// New makes a Limiter over store. It fails when a limit is negative.
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	l := &Limiter{store: store, fallback: cfg.Fallback, limits: cfg.Limits, timeout: cfg.Timeout, clock: newClock(cfg.Now)}
	for _, limit := range []*int64{&l.limits.Records, &l.limits.Imports, &l.limits.Requests} {
		if *limit < 0 {
			return nil, fmt.Errorf("ratelimit: a limit of %d admits nothing; it must be at least 1", *limit)
		}
		if *limit == 0 {
			*limit = DefaultLimit
		}
	}
	if _, immediate := store.(Immediate); immediate {
		l.timeout = 0
	} else if l.timeout == 0 {
		l.timeout = 2 * time.Second
	}
	return l, nil
}

// Limits are the limits in force.
func (l *Limiter) Limits() Limits { return l.limits }

// Charge charges r in the window of the present moment.
//
// When the store cannot tell, the fallback decides, and the Decision says so in
// Degraded. Without a fallback that is an error: the Decision is then a refusal
// whose counters show nothing left, so that its headers tell clients to wait.
// Either way the store may have counted the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (d Decision, err error) {
	key := l.decide(&d, r)
	if l.timeout == 0 {
		d.Used, d.Allowed, err = l.store.Charge(ctx, key, d.Rules, d.Cost)
	} else if l.known.refuses(key, &d, r) {
		d.Local = true
		return d, nil
	} else {
		bounded, cancel := context.WithTimeout(ctx, l.timeout)
		d.Used, d.Allowed, err = l.store.Charge(bounded, key, d.Rules, d.Cost)
		cancel()
	}
	if err != nil {
		return d, l.degrade(ctx, &d, key, fmt.Errorf("charge: %w", err))
	}
	if !d.Allowed && r.Asked > 0 || l.timeout > 0 && (!d.Allowed || d.Remaining() == 0) {
		l.known.note(key, &d, r)
	}
	return d, nil
}

// degrade decides what the store could not, because of cause.
func (l *Limiter) degrade(ctx context.Context, d *Decision, key Key, cause error) error {
	d.Allowed = false
	d.exhaust()
	if l.fallback == nil {
		return cause
	}
	used, admitted, err := l.fallback.Charge(ctx, key, d.Rules, d.Cost)
	if err != nil {
		return errors.Join(cause, err)
	}
	d.Allowed, d.Used, d.Degraded = admitted, used, cause
	return nil
}

// Precheck refuses an export before its records are read, if it is known that
// it cannot pass: its request no longer fits, or in this window the address was
// refused as many records as r.Asked or fewer on the same route. It charges
// nothing and asks no store that is not Immediate. r.Records is not regarded.
//
// A request that asks for much and would find little may thus be refused
// although what it finds would fit; it passes in the next window.
func (l *Limiter) Precheck(r Request) (d Decision, refused bool) {
	r.Records = 0
	key := l.decide(&d, r)
	refused = l.known.foresees(key, &d, r)
	if l.timeout == 0 {
		if used, _, err := l.store.Charge(context.Background(), key, d.Rules, Amounts{}); err == nil {
			d.Used = used
			refused = refused || !d.fits()
		}
	}
	if !refused {
		return d, false
	}
	d.Local = true
	if r.Route.class == Export {
		d.Cost.First = r.Asked
	}
	return d, true
}

// Uncharged is the Decision for a request that cannot be charged, because no
// address can be made out: a refusal with nothing left.
func (l *Limiter) Uncharged(r Request) (d Decision) {
	l.decide(&d, r)
	d.exhaust()
	return d
}

// decide makes d, which is empty, a refusal of r in the present window, with the
// rules that apply.
func (l *Limiter) decide(d *Decision, r Request) Key {
	rules := r.Route.rules.Load()
	if rules == nil || rules.limiter != l {
		rules = l.rules(r.Route)
	}
	d.Window, d.Rules = l.clock.window(), rules.list
	switch r.Route.class {
	case Export:
		d.Cost = Amounts{r.Records, 1}
	case Import:
		d.Cost = Amounts{1, 1}
	default:
		d.Cost.First = 1
	}
	return Key{Address: r.Address, Class: r.Route.class, Window: d.Window}
}

// rules makes the rules of a route, and lets it keep them: a route has one
// Limiter, as a rule.
func (l *Limiter) rules(route *Route) *routeRules {
	rules := &routeRules{limiter: l}
	switch route.class {
	case Export:
		rules.list = []Rule{{Policy: PolicyRecords, Counter: PolicyRecords, Limit: l.limits.Records}}
	case Import:
		rules.list = []Rule{{Policy: PolicyImports, Counter: PolicyImports, Limit: l.limits.Imports}}
	}
	rules.list = append(rules.list, Rule{Policy: PolicyRequests, Counter: route.counter, Limit: l.limits.Requests})
	route.rules.Store(rules)
	return rules
}
