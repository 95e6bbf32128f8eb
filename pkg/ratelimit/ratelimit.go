// Package ratelimit limits each client's requests, imports and records per second, and an API key's
// imports and records also per day and month. A client's identity is its address or its API key. The limits are exact, however many processes share
// the counters.
//
// Each request is charged in one atomic step. If all of its costs fit, they are added to the
// counters of the rules that apply. Otherwise the request is refused and no counter changes,
// so a refusal costs nothing. Counters live in a [Store]: package dynamo shares them between
// processes, and package memory keeps them within one process.
//
// A window is one UTC second. No window admits more than the limit, but up to twice the limit
// can pass within a second that straddles two windows.
package ratelimit

import (
	"context"
	"math"
	"strings"
	"time"
)

// WindowLength is the time after which counters start again at 0.
const WindowLength = time.Second

// Window is a UTC second, represented by the Unix time at which it begins.
type Window int64

// WindowAt returns the window that contains t.
func WindowAt(t time.Time) Window { return Window(t.Unix()) }

// Reset returns the Unix time, in seconds, at which the window ends.
func (w Window) Reset() int64 { return int64(w) + int64(WindowLength/time.Second) }

// Class says which rules apply to a route.
type Class string

const (
	General Class = "general" // routes that are neither Export nor Import; rule: RuleRequests
	Export  Class = "export"  // routes that read records; rules: RuleRecords and RuleRequests
	Import  Class = "import"  // routes that write records; rules: RuleImports and RuleRequests
)

// The names of the rules, which clients see in headers and problems.
const (
	RuleRecords  = "records"  // counted per identity, across all export routes
	RuleImports  = "imports"  // counted per identity, across all import routes
	RuleRequests = "requests" // counted per identity and route
)

// Route describes a route of the service to a Limiter. Each route has its own request counter.
type Route struct {
	Name  string // such as list-entity
	Class Class
}

// Group returns the group of the route's counters. All export routes share one group, because
// their records are counted together. All import routes share another, because their imports
// are counted together. Each general route has a group of its own.
func (r Route) Group() Group {
	switch r.Class {
	case Export, Import:
		return Group(r.Class)
	default:
		return Group(r.Name)
	}
}

const counterPrefix = "r_"

// counter returns the name of the route's own counter: r_list_entity for list-entity.
func (r Route) counter() string { return counterPrefix + strings.ReplaceAll(r.Name, "-", "_") }

// counterRoute returns the name of the route that the counter belongs to; ok is false for a
// counter that several routes share.
func counterRoute(counter string) (name string, ok bool) {
	name, ok = strings.CutPrefix(counter, counterPrefix)
	return strings.ReplaceAll(name, "_", "-"), ok
}

// Request is what a Limiter needs to know about a request to charge it.
type Request struct {
	Subject Subject
	Route   Route
	Records int64 // number of records in the response; ignored unless the class is Export
}

// Group names the counters of an identity that are stored together: "export", "import" or the name
// of a general route.
type Group string

// Key identifies the counters of one identity in one group and window. A Store keeps these
// counters together and changes them atomically.
type Key struct {
	Identity string // of the Subject that is counted
	Group    Group
	Window   Window
}

// Rule is a limit on a counter.
type Rule struct {
	Name    string // RuleRecords, RuleImports, RuleRequests, or the rule of a quota, such as RuleRecordsDay
	Counter string // name of the counter within its Key
	Period  Period // Day or Month only if the identity is a key
	Limit   int64  // highest value that the counter may reach, at least 1, or NoLimit
}

// NoLimit is the Limit of a Rule that counts requests but never refuses one.
const NoLimit = math.MaxInt64

// Fits reports whether a counter at value can take cost without exceeding the limit. A cost of
// 0 always fits, even if the counter is already above the limit because the limit was lowered.
func (r Rule) Fits(value, cost int64) bool { return cost == 0 || cost <= r.Limit-value }

func (r Rule) remaining(value int64) int64 { return max(0, r.Limit-value) }

// Cost is what a request adds to the counter of a rule.
type Cost struct {
	Rule   Rule
	Amount int64 // 0 or more
}

// Result is the outcome of a charge.
type Result struct {
	Admitted bool    // whether the costs were added
	Used     []int64 // counter values after the charge, in the order of the costs; nil or shorter if they are unknown

	// Window is where the charge counted, or would have, if not in the window of the Key: a Store may
	// know the time better than the instance. 0 means the window of the Key.
	Window Window
}

// Store keeps counters. Implementations must be safe for concurrent use.
type Store interface {
	// Charge adds the amount of each cost to the cost's counter under key. If any counter would
	// exceed its limit, Admitted is false and no counter changes. There must be at least one cost,
	// and at most one per counter and period. Used may be nil if a single amount exceeds its rule's limit.
	//
	// If Charge returns an error, the charge may have been applied, but never in part.
	Charge(ctx context.Context, key Key, costs []Cost) (Result, error)
}

// Placer is a Store that may know the time better than the instance.
type Placer interface {
	// Place returns the window in which a charge under key would count, as far as is known.
	Place(key Key) Window
}
