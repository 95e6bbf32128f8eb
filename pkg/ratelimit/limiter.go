package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config tunes a Limiter. Its zero value is ready to use.
type Config struct {
	Limits  Limits
	Timeout time.Duration // longest wait for the store; 2 seconds by default

	// Fallback decides what the store cannot, by counters of its own: a store
	// in memory admits up to the limit per process. Nil, the default, refuses
	// instead.
	Fallback Store

	Now func() time.Time // the clock that places a charge in a window; time.Now by default
}

// Limiter charges requests by the service's three rules. It remembers what the
// store has refused in the running second, and refuses what that excludes
// without asking again. It is safe for concurrent use.
type Limiter struct {
	store    Store
	fallback Store
	limits   Limits
	timeout  time.Duration
	now      func() time.Time
	known    known
}

// New makes a Limiter over store. It fails when a limit is negative.
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	l := &Limiter{store: store, fallback: cfg.Fallback, limits: cfg.Limits, timeout: cfg.Timeout, now: cfg.Now}
	for _, limit := range []*int64{&l.limits.Records, &l.limits.Imports, &l.limits.Requests} {
		if *limit < 0 {
			return nil, fmt.Errorf("ratelimit: a limit of %d admits nothing; it must be at least 1", *limit)
		}
		if *limit == 0 {
			*limit = DefaultLimit
		}
	}
	if l.timeout == 0 {
		l.timeout = 2 * time.Second
	}
	if l.now == nil {
		l.now = time.Now
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
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	d, key := l.decision(r)
	route := routeCounter(r.Route)
	if l.known.refuses(key, d.Counters, "", 0) {
		d.Local = true
		l.known.note(key, d.Counters, false, route, r.Asked)
		return d, nil
	}
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	admitted, err := l.store.Charge(bounded, key, d.Counters)
	if err != nil {
		return l.degrade(ctx, d, key, fmt.Errorf("charge: %w", err))
	}
	d.Allowed = admitted
	l.known.note(key, d.Counters, admitted, route, r.Asked)
	return d, nil
}

// degrade decides what the store could not, because of cause.
func (l *Limiter) degrade(ctx context.Context, d Decision, key Key, cause error) (Decision, error) {
	if l.fallback == nil {
		d.exhaust()
		return d, cause
	}
	admitted, err := l.fallback.Charge(ctx, key, d.Counters)
	if err != nil {
		d.exhaust()
		return d, errors.Join(cause, err)
	}
	d.Allowed, d.Degraded = admitted, cause
	return d, nil
}

// Precheck refuses an export before its records are read, if it is known that
// it cannot pass: its request no longer fits, or in this window the address was
// refused as many records as r.Asked or fewer on the same route. It charges
// nothing and asks no store. r.Records is not regarded.
//
// A request that asks for much and would find little may thus be refused
// although what it finds would fit; it passes in the next window.
func (l *Limiter) Precheck(r Request) (d Decision, refused bool) {
	r.Records = 0
	d, key := l.decision(r)
	if !l.known.refuses(key, d.Counters, routeCounter(r.Route), r.Asked) {
		return d, false
	}
	d.Local = true
	for i := range d.Counters {
		if d.Counters[i].Policy == PolicyRecords {
			d.Counters[i].Cost = r.Asked
		}
	}
	return d, true
}

// Uncharged is the Decision for a request that cannot be charged, because no
// address can be made out: a refusal with nothing left.
func (l *Limiter) Uncharged(r Request) Decision {
	d, _ := l.decision(r)
	d.exhaust()
	return d
}

// decision is a refusal of r in the present window, with the rules that apply.
func (l *Limiter) decision(r Request) (Decision, Key) {
	d := Decision{Window: WindowAt(l.now()), Counters: l.counters(r)}
	return d, Key{Address: r.Address, Class: r.Class, Window: d.Window}
}

// counters are the rules that apply to r, each with its cost.
func (l *Limiter) counters(r Request) []Counter {
	requests := Counter{Policy: PolicyRequests, Name: routeCounter(r.Route), Limit: l.limits.Requests, Cost: 1}
	switch r.Class {
	case Export:
		return []Counter{{Policy: PolicyRecords, Name: PolicyRecords, Limit: l.limits.Records, Cost: r.Records}, requests}
	case Import:
		return []Counter{{Policy: PolicyImports, Name: PolicyImports, Limit: l.limits.Imports, Cost: 1}, requests}
	default:
		return []Counter{requests}
	}
}

// routeCounter is the name of a route's own counter: r_list_entity for list-entity.
func routeCounter(route string) string { return "r_" + strings.ReplaceAll(route, "-", "_") }
