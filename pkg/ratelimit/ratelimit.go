// Package ratelimit limits the requests, imports and records per second of each client. A
// client is an address or an API key: its identity. The limits are exact, however many
// processes share the counters.
//
// Each request is charged once, in one atomic step. Either its cost is added to the counter of
// every rule that applies or, if one cost does not fit, no counter changes and the request is
// refused, so a refusal costs nothing. Counters live in a [Store]: package dynamo shares them
// between processes, and package memory keeps them in one.
//
// A window is one UTC second. None admits more than the limit, but up to twice the limit can
// pass within a second that straddles two windows.
package ratelimit

import (
	"context"
	"math"
	"strings"
	"time"
)

const WindowLength = time.Second

// Window is a UTC second, as the Unix time at which it begins.
type Window int64

func WindowAt(t time.Time) Window { return Window(t.Unix()) }

// Reset returns the Unix time, in seconds, at which the window ends.
func (w Window) Reset() int64 { return int64(w) + int64(WindowLength/time.Second) }

// Class is a group of routes with the same rules.
type Class string

// The classes.
const (
	General Class = "general" // routes that are neither Export nor Import; rule: PolicyRequests
	Export  Class = "export"  // routes that read records; rules: PolicyRecords and PolicyRequests
	Import  Class = "import"  // routes that write records; rules: PolicyImports and PolicyRequests
)

// The names of the rules in the RateLimit headers.
const (
	PolicyRecords  = "records"  // per identity, over all export routes
	PolicyImports  = "imports"  // per identity, over all import routes
	PolicyRequests = "requests" // per identity and route
)

// Route is a route of the service, with a counter of requests of its own.
type Route struct {
	Name  string // such as list-entity
	Class Class
}

// Scope returns the scope of the route's counters. All export routes have one, because they
// share the records rule, and so have all import routes; the scope of a general route is its
// name.
func (r Route) Scope() Scope {
	switch r.Class {
	case Export, Import:
		return Scope(r.Class)
	default:
		return Scope(r.Name)
	}
}

const counterPrefix = "r_"

// counter returns the route's own counter: r_list_entity for list-entity.
func (r Route) counter() string { return counterPrefix + strings.ReplaceAll(r.Name, "-", "_") }

// counterRoute returns the name of the route that the counter belongs to; ok is false if it
// belongs to several.
func counterRoute(counter string) (name string, ok bool) {
	name, ok = strings.CutPrefix(counter, counterPrefix)
	return strings.ReplaceAll(name, "_", "-"), ok
}

// Request is a request to charge.
type Request struct {
	Identity string // who is counted, as returned by ParseAddress or KeyIdentity
	Route    Route
	Records  int64 // records in the response; Export only
}

// Scope names counters of an identity that are charged together: "export", "import" or the
// name of a general route.
type Scope string

// Key identifies the counters of an identity, scope and window. A Store keeps them together
// and changes them atomically.
type Key struct {
	Identity string // who is counted, as returned by ParseAddress or KeyIdentity
	Scope    Scope
	Window   Window
}

// Rule is a limit on a counter.
type Rule struct {
	Policy  string // its name in the RateLimit headers
	Counter string // its name within the Key
	Limit   int64  // the highest value of the counter, at least 1, or NoLimit
}

// NoLimit is the Limit of a Rule that counts requests but never refuses one.
const NoLimit = math.MaxInt64

// Fits reports whether cost can be added to a counter with this value without exceeding the
// limit. A cost of 0 always fits, even above a limit that was lowered.
func (r Rule) Fits(value, cost int64) bool { return cost == 0 || cost <= r.Limit-value }

// remaining is 0 if value exceeds the limit.
func (r Rule) remaining(value int64) int64 { return max(0, r.Limit-value) }

// Cost is what a request adds to the counter of a rule.
type Cost struct {
	Rule   Rule
	Amount int64 // 0 or more
}

// Result is the outcome of a charge.
type Result struct {
	Admitted bool    // whether the costs were added
	Used     []int64 // counters after the charge, in the order of the costs; nil if unknown
}

// Store keeps counters. Implementations are safe for concurrent use.
type Store interface {
	// Charge adds the amount of each cost to its counter under key. If one of them would exceed
	// its limit, Charge refuses and changes no counter. There must be at least one cost, and at
	// most one per counter. Result.Used may be nil if an amount is above its limit.
	//
	// After an error, the charge may have been applied, but never in part.
	Charge(ctx context.Context, key Key, costs []Cost) (Result, error)
}
