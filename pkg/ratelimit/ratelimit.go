// Package ratelimit decides, exactly, whether a request fits the limits of the
// current second, however many processes decide at once.
//
// A request is charged once: the costs of all the rules that apply to it are
// added to their counters in one atomic step, or, when one of them has no
// room, none is added and the request is refused. A refused request therefore
// costs nothing. Counters live in a [Store]; package dynamostore shares them
// between processes, package memstore keeps them in one.
//
// Windows are fixed: the UTC seconds. What that promises and what not: no more
// than the limit is admitted in any one second, but up to twice the limit can
// pass in a second's length of time that straddles two windows.
package ratelimit

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// WindowLength is how long each window lasts.
const WindowLength = time.Second

// Window is a UTC second, as the Unix time of its beginning.
type Window int64

// WindowAt is the window that t falls in.
func WindowAt(t time.Time) Window { return Window(t.Unix()) }

// Reset is the Unix time at which the window ends.
func (w Window) Reset() int64 { return int64(w) + int64(WindowLength/time.Second) }

// Class groups routes by the rules that apply to them. Its counters of one
// address and window are kept together, apart from those of other classes.
type Class uint8

// The classes.
const (
	General Class = iota // neither of the others: requests
	Export               // gets data out: records and requests
	Import               // gets data in: imports and requests

	Classes = iota // how many there are
)

// String is the class as keys have it: "general", "export" or "import".
func (c Class) String() string { return [Classes]string{"general", "export", "import"}[c] }

// The names of the rules, as clients see them.
const (
	PolicyRecords  = "records"  // per address, over all export routes
	PolicyImports  = "imports"  // per address, over all import routes
	PolicyRequests = "requests" // per address and route
)

// DefaultLimit is every rule's limit unless configured.
const DefaultLimit = 200

// Limits says how much each rule admits in a window. A field that is zero
// means DefaultLimit.
type Limits struct {
	Records  int64 // records returned per address, over all export routes
	Imports  int64 // calls per address, over all import routes
	Requests int64 // requests per address and route
}

// Key names the counters that one charge touches. A store keeps them together
// so that it can change them in one step.
type Key struct {
	Address string // as ParseAddress returns it
	Class   Class
	Window  Window
}

// String is the key as text: address, class and window, separated by '#'.
func (k Key) String() string {
	return k.Address + "#" + k.Class.String() + "#" + strconv.FormatInt(int64(k.Window), 10)
}

// MaxRules is how many rules apply to a request at most.
const MaxRules = 2

// Rule is a limit on a counter.
type Rule struct {
	Policy  string // its name, as clients see it
	Counter string // the counter's name within its Key
	Limit   int64  // what the counter may reach, at least 1
}

// Fits reports whether cost can be added to what is used without exceeding the
// limit. A cost of 0 always fits, even above a limit that was lowered.
func (r *Rule) Fits(used, cost int64) bool { return cost == 0 || cost <= r.Limit-used }

// Remaining is what used leaves of the limit, never below 0.
func (r *Rule) Remaining(used int64) int64 { return max(0, r.Limit-used) }

// Amounts go with rules: one for each, in their order. What is beyond the rules
// is 0.
type Amounts struct{ First, Second int64 }

// At is the amount of the rule with that index.
func (a Amounts) At(i int) int64 {
	if i == 0 {
		return a.First
	}
	return a.Second
}

// Set sets the amount of the rule with that index.
func (a *Amounts) Set(i int, n int64) {
	if i == 0 {
		a.First = n
	} else {
		a.Second = n
	}
}

// Store keeps counters. Implementations are safe for concurrent use.
type Store interface {
	// Charge adds the cost of each rule, 0 or more, to what the key's counter of
	// that name holds, or, if one of them would come to exceed its limit, adds
	// nothing. There are one or two rules, of counters that differ; nobody changes
	// them any more. It returns what the counters hold: after the charge when it was
	// admitted, unchanged when it was refused. A cost above its limit is refused
	// whatever the counter holds; what it returns may then be 0.
	//
	// An error means that the store cannot tell: the costs may have been
	// added, all or none, and used means nothing.
	Charge(ctx context.Context, key Key, rules []Rule, cost Amounts) (used Amounts, admitted bool, err error)
}

// Immediate is a Store that never waits, as one in memory: a Limiter sets no
// timeout for it.
type Immediate interface {
	Store
	Immediate()
}

// Route is a route of the service, made once for all its requests. It is safe for
// concurrent use.
type Route struct {
	class   Class
	counter string
	rules   atomic.Pointer[routeRules] // as the last Limiter has them
}

// routeRules are a Limiter's rules for a route.
type routeRules struct {
	limiter *Limiter
	list    []Rule // the route's own counter is the last
}

// NewRoute makes the route of that name, such as list-entity, whose own counter
// is r_list_entity.
func NewRoute(name string, class Class) *Route {
	return &Route{class: class, counter: counterPrefix + strings.ReplaceAll(name, "-", "_")}
}

const counterPrefix = "r_"

// counterRoute is the name of the route whose counter it is.
func counterRoute(counter string) (name string, ok bool) {
	name, ok = strings.CutPrefix(counter, counterPrefix)
	return strings.ReplaceAll(name, "_", "-"), ok
}

// Request is what is charged.
type Request struct {
	Address string // as ParseAddress returns it
	Route   *Route // required
	Records int64  // records that the answer shows; counts for Export only
	Asked   int64  // most records that the client asked for; Export only, 0 if unknown
}
