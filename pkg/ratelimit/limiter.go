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
	Timeout time.Duration    // longest wait for the store; 2 seconds by default
	Now     func() time.Time // the clock that places a charge in a window; time.Now by default
}

// Limiter charges requests by the service's three rules. It is safe for
// concurrent use.
type Limiter struct {
	store   Store
	limits  Limits
	timeout time.Duration
	now     func() time.Time
}

// New makes a Limiter over store. It fails when a limit is negative.
func New(store Store, cfg Config) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: a store is required")
	}
	l := &Limiter{store: store, limits: cfg.Limits, timeout: cfg.Timeout, now: cfg.Now}
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
// An error means that the store could not tell. The Decision is then a refusal
// whose counters show nothing left, so that its headers tell clients to wait;
// the charge may have been counted.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	d := Decision{Window: WindowAt(l.now()), Counters: l.counters(r)}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	admitted, err := l.store.Charge(ctx, Key{Address: r.Address, Class: r.Class, Window: d.Window}, d.Counters)
	if err != nil {
		for i := range d.Counters {
			d.Counters[i].Used = d.Counters[i].Limit
		}
		return d, fmt.Errorf("charge: %w", err)
	}
	d.Allowed = admitted
	return d, nil
}

// Uncharged is the Decision for a request that cannot be charged, because no
// address can be made out: a refusal with nothing left.
func (l *Limiter) Uncharged(r Request) Decision {
	d := Decision{Window: WindowAt(l.now()), Counters: l.counters(r)}
	for i := range d.Counters {
		d.Counters[i].Used = d.Counters[i].Limit
	}
	return d
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
