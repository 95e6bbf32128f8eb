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
	"fmt"
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
type Class string

// The classes.
const (
	Export  Class = "export"  // gets data out: records and requests
	Import  Class = "import"  // gets data in: imports and requests
	General Class = "general" // everything else: requests
)

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
func (k Key) String() string { return fmt.Sprintf("%s#%s#%d", k.Address, k.Class, k.Window) }

// Counter is one rule's part in a charge.
type Counter struct {
	Policy string // the rule's name
	Name   string // the counter's name within its Key
	Limit  int64  // what the counter may reach, at least 1
	Cost   int64  // what the charge adds, 0 or more
	Used   int64  // set by the store: what has been used of Limit, this charge included if it was admitted
}

// Fits reports whether Cost can be added to Used without exceeding Limit. A
// cost of 0 always fits, even where Used is above a limit that was lowered.
func (c Counter) Fits() bool { return c.Cost == 0 || c.Cost <= c.Limit-c.Used }

// Remaining is what is left of Limit, never below 0.
func (c Counter) Remaining() int64 { return max(0, c.Limit-c.Used) }

// Store keeps counters. Implementations are safe for concurrent use.
type Store interface {
	// Charge adds each counter's Cost to what the key's counter of that Name
	// holds, or, if one of them would come to exceed its Limit, adds nothing.
	// It sets Used of every counter: to the value after the charge when it was
	// admitted, to the unchanged value when it was refused. A cost above its
	// limit is refused whatever the counter holds; Used may then stay 0.
	//
	// An error means that the store cannot tell: the costs may have been
	// added, all or none, and Used means nothing.
	Charge(ctx context.Context, key Key, counters []Counter) (admitted bool, err error)
}

// Request is what is charged.
type Request struct {
	Address string // as ParseAddress returns it
	Class   Class
	Route   string // the route's name, such as list-entity
	Records int64  // records that the answer shows; counts for Export only
	Asked   int64  // most records that the client asked for; Export only, 0 if unknown
}
