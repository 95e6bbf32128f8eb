// Package ratelimit decides exactly whether a request fits the limits of the
// current second, no matter how many processes decide at the same time.
//
// A request is charged once: its costs by all rules are added to their counters
// in one atomic step or, if one of them does not fit, none is added and the
// request is refused. A refused request therefore costs nothing. Counters live in
// a [Store]: dynamostore shares them between processes, memstore keeps them in
// one process.
//
// Windows are fixed: each is one UTC second. No more than the limit is admitted
// in any window, but up to twice the limit can pass within a second that
// straddles two windows.
package ratelimit

import (
	"context"
	"math"
	"strings"
	"time"
)

// WindowLength is the length of a window.
const WindowLength = time.Second

// Window is a UTC second, as the Unix time of its beginning.
type Window int64

// WindowAt returns the window that contains t.
func WindowAt(t time.Time) Window { return Window(t.Unix()) }

// Reset returns the Unix time, in seconds, at which the window ends.
func (w Window) Reset() int64 { return int64(w) + int64(WindowLength/time.Second) }

// Class is a group of routes that the same rules apply to.
type Class string

// The classes.
const (
	General Class = "general" // counts requests
	Export  Class = "export"  // gets data out: counts records and requests
	Import  Class = "import"  // gets data in: counts imports and requests
)

// The names of the rules, as clients see them.
const (
	PolicyRecords  = "records"  // per address, over all export routes
	PolicyImports  = "imports"  // per address, over all import routes
	PolicyRequests = "requests" // per address and route
)

// Route is a route of the service.
type Route struct {
	Name  string // such as list-entity
	Class Class
}

// Scope returns the scope of the route's counters: all export routes share one,
// since they share the records rule, and all import routes share one. A general
// route has its own.
func (r Route) Scope() Scope {
	switch r.Class {
	case Export, Import:
		return Scope(r.Class)
	default:
		return Scope(r.Name)
	}
}

// counterPrefix starts the name of a route's own counter.
const counterPrefix = "r_"

// counter returns the name of the route's own counter: r_list_entity for the
// route list-entity.
func (r Route) counter() string { return counterPrefix + strings.ReplaceAll(r.Name, "-", "_") }

// counterRoute returns the name of the route that counter belongs to. It
// reports false if counter is not a route's own counter.
func counterRoute(counter string) (name string, ok bool) {
	name, ok = strings.CutPrefix(counter, counterPrefix)
	return strings.ReplaceAll(name, "_", "-"), ok
}

// Request is a request to charge.
type Request struct {
	Address string // of the client, as ParseAddress returns it
	Route   Route
	Records int64 // records in the response; Export only
	Asked   int64 // the most records the response can hold; Export only; 0 if unknown
}

// Scope names the counters of an address that change together: export, import or
// the name of a general route.
type Scope string

// Key names the counters of one address, scope and window. A Store keeps them
// together and changes them atomically.
type Key struct {
	Address string // of the client, as ParseAddress returns it
	Scope   Scope
	Window  Window
}

// Rule is a limit on a counter.
type Rule struct {
	Policy  string // the rule's name, as clients see it
	Counter string // the counter's name within its Key
	Limit   int64  // the highest value that the counter may reach, at least 1; or NoLimit
}

// NoLimit is the Limit of a Rule that counts and refuses nothing.
const NoLimit = math.MaxInt64

// Fits reports whether cost can be added to used without exceeding the limit.
// A cost of 0 always fits, even if used is above a limit that was lowered.
func (r Rule) Fits(used, cost int64) bool { return cost == 0 || cost <= r.Limit-used }

// Remaining returns what used leaves of the limit, at least 0.
func (r Rule) Remaining(used int64) int64 { return max(0, r.Limit-used) }

// Cost is the amount, 0 or more, that a request adds to the counter of a rule.
type Cost struct {
	Rule   Rule
	Amount int64
}

// Result is the outcome of a charge.
type Result struct {
	Admitted bool
	Used     []int64 // the values of the counters, one for each cost, in order; nil if unknown
}

// Store keeps counters. Implementations are safe for concurrent use.
type Store interface {
	// Charge adds the amount of each cost to its counter under key or, if that
	// would take one of them above its limit, adds nothing. There is at least
	// one cost, and each is for another counter. Used holds the counters after
	// the charge, which are unchanged if it was refused. It may be nil if an
	// amount is above its limit.
	//
	// After an error it is unknown whether the charge was applied, completely,
	// or not at all.
	Charge(ctx context.Context, key Key, costs []Cost) (Result, error)
}
