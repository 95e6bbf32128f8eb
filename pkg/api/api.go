// Package api holds JSON types that the server encodes and the Go client decodes: problem details,
// lists, jobs, usage, and the results of batches and deletions. The types of records are in packages
// of their own.
package api

import (
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Problem is the body of every error (RFC 9457), sent as application/problem+json.
type Problem struct {
	Type             string              `json:"type"`                        // URI, or "about:blank"
	Title            string              `json:"title"`                       // short summary of the problem type
	Status           int                 `json:"status"`                      // HTTP status
	Detail           string              `json:"detail"`                      // what went wrong and what to do
	Instance         string              `json:"instance,omitempty"`          // request id
	Code             string              `json:"code"`                        // stable error code for programs, in snake_case
	Errors           []record.FieldError `json:"errors,omitempty"`            // invalid fields or parameters
	ViolatedPolicies []string            `json:"violated-policies,omitempty"` // rate limits that the request exceeds; only for 429
	CurrentRevision  *int64              `json:"current_revision,omitempty"`  // only for 412: the entity's revision, 0 if there is no such entity
	Results          []BatchResult       `json:"results,omitempty"`           // one per element of a batch, if all of them failed with the same status
}

// List is one page of results.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page

	// SyncedUntil is a time before which the pages of this list so far have every change, so the
	// next walk may start there. It is set only in lists of changes in ascending order.
	SyncedUntil *record.Time `json:"synced_until,omitempty"`

	// Index served the query. It is set only if the query has conditions on attributes.
	Index *EntityIndex `json:"index,omitempty"`
}

// Members lists the members that the records of a resource have, in lists and in files.
func Members(r record.Resource) []record.Member {
	if r == record.Event {
		return new(event.Event).Members(nil)
	}
	return new(entity.Entity).Members(nil)
}

// Batch is the response to a batch.
type Batch struct {
	Results []BatchResult `json:"results"` // one per element, in order
}

// BatchResult is the outcome of one element of a batch: the status and body that it would get in
// a request of its own.
type BatchResult struct {
	Index   int            `json:"index"`            // position in the batch, from 0
	Status  int            `json:"status"`           // HTTP status
	Entity  *entity.Entity `json:"entity,omitempty"` // absent once the attributes so far exceed record.MaxPageBytes in total
	Event   *event.Event   `json:"event,omitempty"`
	Deleted bool           `json:"deleted,omitzero"`  // whether there is no such entity now
	Problem *Problem       `json:"problem,omitempty"` // why the element failed; its Instance is empty
}

// Deleted is the response to a deletion.
type Deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"` // always true, even if there was no such record
}

// EntityIndex describes an index of one type of entity, or of events by name.
type EntityIndex struct {
	Resource   record.Resource  `json:"resource"`
	Type       string           `json:"type,omitzero"` // of the entities; "" for events
	Attributes []IndexAttribute `json:"attributes"`    // in the order in which the index sorts
	State      string           `json:"state"`         // as in index.State; the index serves queries only in the state "ready"
	Done       float64          `json:"done"`          // fraction of the index that is built, from 0 to 1
}

// IndexAttribute is an attribute that an index covers.
type IndexAttribute struct {
	Name      string `json:"name"`
	ValueType string `json:"value_type"`    // "text", "number" or "boolean"
	Fold      bool   `json:"fold,omitzero"` // whether texts compare regardless of case
}

// Usage describes the limits of an address or API key, and its usage in the last minute.
type Usage struct {
	Counted string        `json:"counted"` // whose usage this is: "address:…" or "key:…"
	Address string        `json:"address"` // the caller's address, or the address in the query if there is one; an IPv6 address is reduced to its prefix
	Action  string        `json:"action"`  // "limit", "block", "unlimited" or "observe", as in ratelimit.Action
	Limit   int64         `json:"limit"`   // the lowest value in Limits
	Limits  UsageLimits   `json:"limits"`
	Seconds []UsageSecond `json:"seconds"`        // windows of one second, oldest first; the last is still in progress. Of an address 60, of a key those that its ledger has
	Day     *UsagePeriod  `json:"day,omitzero"`   // UTC day; nil of an address
	Month   *UsagePeriod  `json:"month,omitzero"` // calendar month in UTC; nil of an address
	Caller  Caller        `json:"caller"`

	// Identities is set only if the query asks for it.
	Identities *UsageIdentities `json:"identities,omitzero"`
}

// UsageIdentities lists who has used the most, or was refused the most.
type UsageIdentities struct {
	Period   string          `json:"period"`        // "minute", "day" or "month"
	Start    int64           `json:"start"`         // Unix time at which the period began
	Data     []IdentityUsage `json:"data,omitzero"` // nil if the service cannot tell
	LeftOut  int             `json:"left_out"`      // how many more have used something
	Complete bool            `json:"complete"`      // false if there are more keys than the service reads

	// RefusalsQuery says where refusals are, if Data has none.
	RefusalsQuery *SavedQuery `json:"refusals_query,omitzero"`
}

// IdentityUsage is what an address or API key has used. A day and a month have neither requests nor
// refusals.
type IdentityUsage struct {
	Counted   string   `json:"counted"`            // "address:…" or "key:…"
	Name      string   `json:"name,omitzero"`      // of a key, like the next two
	Workspace string   `json:"workspace,omitzero"` //
	Plan      string   `json:"plan,omitzero"`      //
	Action    string   `json:"action"`             // as in Usage
	Records   int64    `json:"records"`
	Imports   int64    `json:"imports"`
	Requests  *int64   `json:"requests"`
	Refused   *int64   `json:"refused"` // requests refused by a limit or a block
	Share     *float64 `json:"share"`   // largest share of a limit in the busiest second or, of a day or month, of a quota; nil without a quota
}

// SavedQuery is a saved query of CloudWatch Logs Insights.
type SavedQuery struct {
	Name string `json:"name"`
	URL  string `json:"url"` // of the console in which to run it
}

// UsagePeriod is the usage of an API key in a day or a month.
type UsagePeriod struct {
	Start   int64       `json:"start"` // Unix time at which the period began
	Records int64       `json:"records"`
	Imports int64       `json:"imports"`
	Limits  UsageQuotas `json:"limits"`
}

// UsageQuotas are the quotas of a day or a month. 0 means that there is none; it is absent from JSON.
type UsageQuotas struct {
	Records int64 `json:"records,omitzero"`
	Imports int64 `json:"imports,omitzero"`
}

// Caller describes the API key of a request.
type Caller struct {
	Workspace string   `json:"workspace"`
	KeyID     *string  `json:"key_id"` // nil if API keys are off
	Scopes    []string `json:"scopes"` // sorted; all scopes if API keys are off
}

// UsageLimits are limits per second.
type UsageLimits struct {
	Records  int64 `json:"records"`
	Imports  int64 `json:"imports"`
	Requests int64 `json:"requests"` // per route
}

// UsageSecond is the usage in one second.
type UsageSecond struct {
	Second   int64            `json:"second"` // Unix time at which the second began
	Records  int64            `json:"records"`
	Imports  int64            `json:"imports"`
	Requests map[string]int64 `json:"requests"` // by route name, such as list-entity; only routes that were called
}
