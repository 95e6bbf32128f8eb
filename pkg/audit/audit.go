// Package audit keeps a trail of administrative changes: who changed what, when and from where. A
// record is stored before its change, and again with the result, so no change is without a record.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sluice/pkg/record"
)

// Keep is how long records are kept.
const Keep = 365 * 24 * time.Hour

// Result says what became of a change.
type Result string

const (
	Intended Result = "intended" // it may have been made: nobody stored what became of it
	Done     Result = "done"
	Failed   Result = "failed" // it may have been made in part; Record.Error says why
)

// Record is an administrative change. It never holds a secret or the hash of one.
type Record struct {
	ID        string          `json:"id"` // a UUIDv7, so ids sort by time
	At        record.Time     `json:"at"`
	Workspace string          `json:"workspace"` // whose keys or indexes are changed; "" for plans and limits
	By        string          `json:"by"`        // key:<id>, command:<user>, or anyone if API keys are off
	From      string          `json:"from"`      // the address of a request, or the machine of a command
	Action    string          `json:"action"`    // the name of the route, such as create-api-key, also for a command
	Of        string          `json:"of"`        // what is changed, such as key:7m3kq2xw9abc, 192.0.2.0/24, plan:pro or index:person.email
	Old       json.RawMessage `json:"old"`       // what it was, or null
	New       json.RawMessage `json:"new"`       // what it is now, or null
	Result    Result          `json:"result"`
	Error     string          `json:"error,omitzero"`
}

// Query selects records, newest first.
type Query struct {
	Workspace string // "" for those without a workspace, unless All is set
	All       bool   // records of all workspaces, and those without
	By, Of    string // with what these members of the records begin; "" for any
	Limit     int
	Cursor    record.Cursor // Next of the previous page, or ""
}

// Selects reports whether q selects r.
func (q Query) Selects(r Record) bool {
	return (q.All || r.Workspace == q.Workspace) && strings.HasPrefix(r.By, q.By) && strings.HasPrefix(r.Of, q.Of)
}

// Store keeps records for Keep. It is safe for concurrent use.
type Store interface {
	// Put adds a record, or replaces the one with the same id and workspace.
	Put(ctx context.Context, r Record) error

	// List returns a page of records. One that was put a moment ago may be missing. With By or Of,
	// a page can be short, or even empty, although others follow.
	List(ctx context.Context, q Query) (record.Page[Record], error)
}

// Trail records changes in a Store.
type Trail struct {
	Store Store
	Now   func() time.Time

	// Lost is called if the result of a change cannot be stored. Its record then says Intended.
	Lost func(error)
}

// resultTimeout is for storing a result, even if the context of the change is done.
const resultTimeout = 2 * time.Second

// Do stores r as an intention, makes the change, and stores its result and what it returns, for
// Record.New. If the intention cannot be stored, Do changes nothing, and the error has the code
// Unavailable. old may be nil, and so may what change returns.
func (t Trail) Do(ctx context.Context, r Record, old any, change func() (any, error)) error {
	id, err := uuid.NewV7()
	if err == nil {
		r.ID, r.At, r.Result = id.String(), record.TimeOf(t.Now()), Intended
		r.New = json.RawMessage("null")
		r.Old, err = json.Marshal(old)
	}
	if err == nil {
		err = t.Store.Put(ctx, r)
	}
	if err != nil {
		return record.UnavailableError("record the change", err)
	}
	now, changeErr := change()
	r.Result = Done
	if changeErr != nil {
		r.Result, r.Error = Failed, record.ShortenTo(changeErr.Error(), 200)
	} else if text, err := json.Marshal(now); err == nil {
		r.New = text
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTimeout)
	defer cancel()
	if err := t.Store.Put(ctx, r); err != nil && t.Lost != nil {
		t.Lost(fmt.Errorf("record the result of %s: %w", r.Action, err))
	}
	return changeErr
}
