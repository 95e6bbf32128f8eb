// Package api declares the JSON of the HTTP API that is not a record or an
// export job: problems, lists, results of batches, and usage. The server
// encodes these types and the Go client decodes them.
package api

import (
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Problem is the body of every error response (RFC 9457), sent as
// application/problem+json.
type Problem struct {
	Type             string              `json:"type"`   // "about:blank", or the URI of the problem type
	Title            string              `json:"title"`  // a short summary, the same for every occurrence
	Status           int                 `json:"status"` // the HTTP status
	Detail           string              `json:"detail"` // what to change
	Instance         string              `json:"instance,omitempty"`
	Code             string              `json:"code"`                        // stable, snake_case: for programs
	Errors           []record.FieldError `json:"errors,omitempty"`            // the fields or parameters that are invalid
	ViolatedPolicies []string            `json:"violated-policies,omitempty"` // the rate limits that a 429 reached
	Results          []BatchResult       `json:"results,omitempty"`           // of a batch in which every element failed
}

// List is one page of a list.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page

	// SyncedUntil is the time before which every change is in the pages of this walk.
	// Only lists of changes and of arrivals, oldest first, have it.
	SyncedUntil *record.Time `json:"synced_until,omitempty"`
}

// Batch is the body of the response to a batch.
type Batch struct {
	Results []BatchResult `json:"results"` // one for each element, in order
}

// BatchResult is the result of one element of a batch: the status and the body
// that a request with only this element would have had.
type BatchResult struct {
	Index   int            `json:"index"`             // position in the batch, from 0
	Status  int            `json:"status"`            // HTTP status
	Entity  *entity.Entity `json:"entity,omitempty"`  // of a batch of entities; absent if all together exceed record.MaxPageBytes
	Event   *event.Event   `json:"event,omitempty"`   // of a batch of events
	Problem *Problem       `json:"problem,omitempty"` // without instance
}

// Deleted is the body of the response to a deletion.
type Deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"` // always true, whether or not a record existed
}

// Erasing is the body of the response to a deletion with events: the erasure job.
type Erasing struct {
	ID     string            `json:"id"`
	Status erasurejob.Status `json:"status"`
}

// Usage is what an address has used of its limits in the last minute.
type Usage struct {
	Address string        `json:"address"` // as it is counted: an IPv6 address by its network
	Action  string        `json:"action"`  // "limit", "block", "unlimited" or "observe": what happens to its requests
	Limit   int64         `json:"limit"`   // the lowest of Limits
	Limits  UsageLimits   `json:"limits"`
	Seconds []UsageSecond `json:"seconds"` // 60 windows, oldest first; the last one is still growing
	Caller  Caller        `json:"caller"`
}

// Caller is who made a request, as its API key tells.
type Caller struct {
	Workspace string   `json:"workspace"`
	KeyID     *string  `json:"key_id"` // nil where keys are off
	Scopes    []string `json:"scopes"` // sorted; all of them where keys are off
}

// UsageLimits are the limits in force, each per second.
type UsageLimits struct {
	Records  int64 `json:"records"`
	Imports  int64 `json:"imports"`
	Requests int64 `json:"requests"` // per route
}

// UsageSecond is what an address has used in one window of a second.
type UsageSecond struct {
	Second   int64            `json:"second"` // Unix time at which the window began
	Records  int64            `json:"records"`
	Imports  int64            `json:"imports"`
	Requests map[string]int64 `json:"requests"` // by route name, such as list-entity; only routes that were called
}
