package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultLimit is the limit of each rule unless configured.
const DefaultLimit = 200

// Limits holds the limit of each rule, per window. A zero field means
// DefaultLimit.
type Limits struct {
	Records  int64 // records returned per address, over all export routes
	Imports  int64 // calls per address, over all import routes
	Requests int64 // requests per address and route
}

// Config tunes a Limiter. Its zero value is ready to use.
type Config struct {
	Limits Limits

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
	store    Store
	fallback Store
	limits   Limits
	now      func() time.Time
	known    known
}

// New returns a Limiter over store. It fails if a limit is negative.
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	l := &Limiter{store: store, fallback: cfg.Fallback, limits: cfg.Limits, now: cfg.Now}
	if l.now == nil {
		l.now = time.Now
	}
	for _, limit := range []*int64{&l.limits.Records, &l.limits.Imports, &l.limits.Requests} {
		if *limit < 0 {
			return nil, fmt.Errorf("ratelimit: the limit %d is negative; a limit is at least 1, or 0 for the default", *limit)
		}
		if *limit == 0 {
			*limit = DefaultLimit
		}
	}
	return l, nil
}

// Limits returns the limits in force.
func (l *Limiter) Limits() Limits { return l.limits }

// Charge charges r in the current window.
//
// If the store fails, the fallback decides, and the Decision's Degraded is the
// store's error. If there is no fallback, or it fails too, Charge returns an
// error and a refusal with nothing remaining, so that its headers tell clients
// to wait. In either case the store may have applied the charge.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	key, costs := l.key(r), l.costs(r)
	if used, refused := l.known.refuses(key, costs, false); refused {
		d := newDecision(key, costs, Result{Used: used})
		d.Local = true
		l.known.note(key, d)
		return d, nil
	}
	result, err := l.store.Charge(ctx, key, costs)
	var degraded error
	if err != nil && l.fallback != nil {
		degraded = fmt.Errorf("charge: %w", err)
		result, err = l.fallback.Charge(ctx, key, costs)
	}
	if err != nil {
		return exhausted(key, costs), errors.Join(degraded, fmt.Errorf("charge: %w", err))
	}
	d := newDecision(key, costs, result)
	d.Degraded = degraded
	if degraded == nil && d.Remaining() == 0 {
		l.known.note(key, d)
	}
	return d, nil
}

// Precheck reports whether r, an export that has not been read yet, is known to
// be refused; if so, d is the refusal. It ignores r.Records, charges nothing and
// does not call the store.
//
// An export that was read and then refused tells how many records are left.
// After that, Precheck refuses exports that ask for more in that window, even
// though they might find few enough to pass.
func (l *Limiter) Precheck(r Request) (d Decision, refused bool) {
	r.Records = r.Asked
	key, costs := l.key(r), l.costs(r)
	used, refused := l.known.refuses(key, costs, true)
	d = newDecision(key, costs, Result{Used: used})
	d.Local = refused
	return d, refused
}

// Uncharged returns the Decision for a request that cannot be charged, such as
// one without a valid address: a refusal with nothing remaining.
func (l *Limiter) Uncharged(r Request) Decision { return exhausted(l.key(r), l.costs(r)) }

// key returns the key of r's counters in the current window.
func (l *Limiter) key(r Request) Key {
	return Key{Address: r.Address, Class: r.Route.Class, Window: WindowAt(l.now())}
}

// costs returns the cost of r by each rule that applies to it.
func (l *Limiter) costs(r Request) []Cost {
	requests := Cost{Rule{PolicyRequests, r.Route.counter(), l.limits.Requests}, 1}
	switch r.Route.Class {
	case Export:
		return []Cost{{Rule{PolicyRecords, PolicyRecords, l.limits.Records}, r.Records}, requests}
	case Import:
		return []Cost{{Rule{PolicyImports, PolicyImports, l.limits.Imports}, 1}, requests}
	default:
		return []Cost{requests}
	}
}
