// Package api declares the JSON types of the HTTP API, except the types of records and jobs:
// problem details, lists, usage, and the results of batches and deletions. The server encodes
// these types, and the Go client decodes them.
package api

import (
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Problem is the body of every error response (RFC 9457), sent as
// application/problem+json.
type Problem struct {
	Type             string              `json:"type"`                        // URI of the problem type, or "about:blank"
	Title            string              `json:"title"`                       // short summary of the problem type
	Status           int                 `json:"status"`                      // HTTP status
	Detail           string              `json:"detail"`                      // what to change
	Instance         string              `json:"instance,omitempty"`          // request id
	Code             string              `json:"code"`                        // stable code in snake_case, for programs
	Errors           []record.FieldError `json:"errors,omitempty"`            // invalid fields or parameters
	ViolatedPolicies []string            `json:"violated-policies,omitempty"` // names of the rate limits that the request exceeds; only for 429
	Results          []BatchResult       `json:"results,omitempty"`           // one result for each element of a batch; only if all elements failed with the same status
}

// List is one page of a list.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page

	// SyncedUntil is the start of the next synchronization. The pages of the list contain
	// every change before this time. It is set only in lists of changes in ascending
	// order.
	SyncedUntil *record.Time `json:"synced_until,omitempty"`
}

// Batch is the body of the response to a batch.
type Batch struct {
	Results []BatchResult `json:"results"` // one for each element of the batch, in order
}

// BatchResult is the result of one element of a batch. It contains the status and the
// body of the response that a request with only this element would have received.
type BatchResult struct {
	Index   int            `json:"index"`             // position in the batch, from 0
	Status  int            `json:"status"`            // HTTP status
	Entity  *entity.Entity `json:"entity,omitempty"`  // stored entity; absent if the attributes of the entities up to this one exceed record.MaxPageBytes in total
	Event   *event.Event   `json:"event,omitempty"`   // stored event
	Problem *Problem       `json:"problem,omitempty"` // why the element failed; Problem.Instance is empty
}

// Deleted is the body of the response to a deletion.
type Deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"` // always true, even if no record existed
}

// Erasing is the body of the response to a deletion of an entity and its events. It
// describes the erasure job.
type Erasing struct {
	ID     string     `json:"id"`
	Status job.Status `json:"status"`
}

// EntityIndex is an indexed attribute of the entities of a type.
type EntityIndex struct {
	Type      string      `json:"type"`
	Attribute string      `json:"attribute"`
	Kind      index.Kind  `json:"kind"`
	State     index.State `json:"state"` // queries are served if it is "ready"
	Done      float64     `json:"done"`  // part of the index that is built, from 0 to 1
}

// Usage holds the limits of an address or API key and its usage in the last minute.
type Usage struct {
	Counted string        `json:"counted"` // whose usage this is: "address:…" or "key:…"
	Address string        `json:"address"` // the address in the query, or the caller's, in the form in which addresses are counted: an IPv4 address or an IPv6 prefix
	Action  string        `json:"action"`  // "limit", "block", "unlimited" or "observe"; see ratelimit.Action
	Limit   int64         `json:"limit"`   // lowest of Limits
	Limits  UsageLimits   `json:"limits"`
	Seconds []UsageSecond `json:"seconds"` // 60 windows, oldest first; the last one is still growing
	Caller  Caller        `json:"caller"`
}

// Caller describes the API key of a request.
type Caller struct {
	Workspace string   `json:"workspace"`
	KeyID     *string  `json:"key_id"` // nil if API keys are off
	Scopes    []string `json:"scopes"` // sorted; all scopes if API keys are off
}

// UsageLimits holds the current limits of an identity, per second.
type UsageLimits struct {
	Records  int64 `json:"records"`
	Imports  int64 `json:"imports"`
	Requests int64 `json:"requests"` // requests to each route
}

// UsageSecond holds the usage of an identity in one window, which lasts one second.
type UsageSecond struct {
	Second   int64            `json:"second"` // Unix time at which the window began
	Records  int64            `json:"records"`
	Imports  int64            `json:"imports"`
	Requests map[string]int64 `json:"requests"` // by route name, such as list-entity; only routes that were called
}
