// Package ratelimit limits the requests, imports and records per second of each
// client, which is an address or an API key: its identity. The limits are exact, no
// matter how many processes share the counters.
//
// Each request is charged once, in one atomic step. Either the cost of the
// request is added to the counter of every rule that applies, or, if one cost
// does not fit, no counter changes and the request is refused. A refused request
// therefore costs nothing. Counters live in a [Store]: package dynamo shares them
// between processes, package memory keeps them in one process.
//
// Windows are fixed: each window is one UTC second. No window admits more than
// the limit, but up to twice the limit can pass within a second that straddles
// two windows.
package ratelimit

import (
	"context"
	"math"
	"strings"
	"time"
)

// WindowLength is the length of a window.
const WindowLength = time.Second

// Window is a UTC second. Its value is the Unix time at which the second begins.
type Window int64

// WindowAt returns the window that contains t.
func WindowAt(t time.Time) Window { return Window(t.Unix()) }

// Reset returns the Unix time, in seconds, at which the window ends.
func (w Window) Reset() int64 { return int64(w) + int64(WindowLength/time.Second) }

// Class is a group of routes that share their rules.
type Class string

// The classes.
const (
	General Class = "general" // routes that are neither Export nor Import; rule: PolicyRequests
	Export  Class = "export"  // routes that read records; rules: PolicyRecords and PolicyRequests
	Import  Class = "import"  // routes that write records; rules: PolicyImports and PolicyRequests
)

// The names of the rules, as they appear in the RateLimit headers.
const (
	PolicyRecords  = "records"  // per identity, over all export routes
	PolicyImports  = "imports"  // per identity, over all import routes
	PolicyRequests = "requests" // per identity and route
)

// Route is a route of the service. Each route has its own counter of requests.
type Route struct {
	Name  string // such as list-entity
	Class Class
}

// Scope returns the scope of the route's counters. All export routes share one scope,
// because they share the records rule. All import routes share another scope. Each
// general route has its own scope, with the name of the route.
func (r Route) Scope() Scope {
	switch r.Class {
	case Export, Import:
		return Scope(r.Class)
	default:
		return Scope(r.Name)
	}
}

// counterPrefix is the prefix of the name of a route's own counter.
const counterPrefix = "r_"

// counter returns the name of the route's own counter: r_list_entity for the
// route list-entity.
func (r Route) counter() string { return counterPrefix + strings.ReplaceAll(r.Name, "-", "_") }

// counterRoute returns the name of the route to which the given counter belongs. It
// reports false if the counter is not a route's own counter.
func counterRoute(counter string) (name string, ok bool) {
	name, ok = strings.CutPrefix(counter, counterPrefix)
	return strings.ReplaceAll(name, "_", "-"), ok
}

// Request is a request to charge.
type Request struct {
	Identity string // who is counted: a result of ParseAddress or KeyIdentity
	Route    Route
	Records  int64 // records in the response; Export only
}

// Scope names a group of counters of one identity that can be charged together:
// "export", "import" or the name of a general route.
type Scope string

// Key identifies the counters of one identity, scope and window. A Store keeps
// them together and changes them atomically.
type Key struct {
	Identity string // who is counted: a result of ParseAddress or KeyIdentity
	Scope    Scope
	Window   Window
}

// Rule is a limit on a counter.
type Rule struct {
	Policy  string // name of the rule in the RateLimit headers
	Counter string // name of the counter within its Key
	Limit   int64  // highest value that the counter may reach, at least 1, or NoLimit
}

// NoLimit is the Limit of a Rule that counts requests but refuses none.
const NoLimit = math.MaxInt64

// Fits reports whether cost can be added to a counter with the given value without exceeding
// the limit of r. A cost of 0 always fits, even if the counter is above a limit that was
// lowered.
func (r Rule) Fits(value, cost int64) bool { return cost == 0 || cost <= r.Limit-value }

// remaining returns the limit of r minus the value of a counter, or 0 if the value exceeds
// the limit.
func (r Rule) remaining(value int64) int64 { return max(0, r.Limit-value) }

// Cost is the amount that a request adds to the counter of a rule.
type Cost struct {
	Rule   Rule
	Amount int64 // 0 or more
}

// Result is the outcome of a charge.
type Result struct {
	Admitted bool    // whether the costs were added to the counters
	Used     []int64 // values of the counters after the charge, in the order of the costs; nil if unknown
}

// Store keeps counters. Implementations are safe for concurrent use.
type Store interface {
	// Charge adds the amount of each cost to its counter under key. If one of the
	// counters would exceed its limit, Charge refuses the charge and leaves all counters
	// unchanged. The caller must pass at least one cost, and must not pass two costs with
	// the same counter. Result.Used may be nil if an amount is above the limit of its
	// rule.
	//
	// If Charge returns an error, the charge may have been applied, but never in part.
	Charge(ctx context.Context, key Key, costs []Cost) (Result, error)
}
