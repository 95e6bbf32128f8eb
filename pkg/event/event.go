// Package event defines events, one of the two kinds of records, and the interface for storing
// them.
package event

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/record"
)

// Event is a record of something that happened. It never changes.
type Event struct {
	ID         string
	Name       string
	EntityID   string // the entity that the event is about; may be empty
	OccurredAt record.Time
	Attributes record.Attributes
	CreatedAt  record.Time

	ExpiresAt record.Time // in whole seconds; zero if the event never expires
}

// Members appends to m the members of e, which are the same in the API, in export files and in
// import files. ExpiresAt is not a member.
func (e *Event) Members(m []record.Member) []record.Member {
	return append(m,
		record.Member{Name: "id", Value: &e.ID, Check: record.CheckID},
		record.Member{Name: "name", Value: &e.Name, Check: checkName},
		record.Member{Name: "entity_id", Value: &e.EntityID, Check: record.CheckID, Null: true},
		record.Member{Name: "occurred_at", Value: &e.OccurredAt},
		record.Member{Name: "attributes", Value: &e.Attributes},
		record.Member{Name: "created_at", Value: &e.CreatedAt, ByService: true},
	)
}

// AppendJSON appends e to b; see [record.AppendJSON].
func (e Event) AppendJSON(b []byte) ([]byte, error) {
	var m record.Room
	return record.AppendJSON(b, e.Members(m[:0]))
}

func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

func (e *Event) UnmarshalJSON(object []byte) error { return record.ReadJSON(object, e.Members(nil)) }

// Expired reports whether e has expired at time t.
func (e Event) Expired(t record.Time) bool {
	return e.ExpiresAt != record.Time{} && e.ExpiresAt.Compare(t) <= 0
}

// Draft describes an event to create, in the JSON that clients send.
type Draft struct {
	ID         string            `json:"id,omitzero"`
	Name       string            `json:"name"`
	EntityID   string            `json:"entity_id,omitzero"`
	OccurredAt *record.Time      `json:"occurred_at,omitzero"` // nil for the time of creation
	Attributes record.Attributes `json:"attributes,omitzero"`  // nil for {}

	KeepFor time.Duration `json:"-"` // from creation to expiry, set by the service; 0 if the event never expires
}

// At returns the event that d describes, with now as its time of creation.
func (d Draft) At(now time.Time) Event {
	e := Event{ID: d.ID, Name: d.Name, EntityID: d.EntityID, Attributes: d.Attributes, CreatedAt: record.TimeOf(now)}
	e.OccurredAt = e.CreatedAt
	if d.OccurredAt != nil {
		e.OccurredAt = *d.OccurredAt
	}
	if e.Attributes == nil {
		e.Attributes = record.Attributes("{}")
	}
	if d.KeepFor != 0 {
		e.ExpiresAt = record.TimeOf(now.Add(d.KeepFor).Truncate(time.Second))
	}
	return e
}

// Parse decodes the body of a request or a line of an import file. Every member except name
// may be absent or null. Parse skips the members named in ignored; an import skips those that
// are set by the service. The error is a *record.Error with code Malformed or Invalid. An error of
// code Invalid names the invalid members.
func Parse(text []byte, ignored ...string) (Draft, error) {
	e := Event{Attributes: record.Attributes("{}")}
	given, err := record.Parse(text, e.Members(nil), ignored...)
	d := Draft{ID: e.ID, Name: e.Name, EntityID: e.EntityID, Attributes: e.Attributes}
	if given["occurred_at"] {
		d.OccurredAt = &e.OccurredAt
	}
	if err != nil {
		return d, err
	}
	var wrong record.Fields
	wrong.Check("name", checkName(d.Name)) // Decode does not report a missing name
	return d, wrong.Err()
}

func checkName(name string) error {
	if name == "" {
		return errors.New("is required: 1 to 128 characters")
	}
	return record.CheckName(name)
}

// Position returns e's position in a list sorted by OccurredAt and then by id.
func (e Event) Position() record.Position { return record.Position{At: e.OccurredAt, ID: e.ID} }

// Query requests a page of a workspace's events in order of Event.Position.
type Query struct {
	EntityID  string        // empty for all entities
	Name      string        // empty for all names; otherwise, EntityID must be empty, and the index of events by name ready (index.EventNames)
	From      *record.Time  // only events at this time or later; nil for no bound
	To        *record.Time  // only events before this time; nil for no bound
	Ascending bool          // oldest first; by default, newest first
	Cursor    record.Cursor // Next of the previous page; "" for the first page
	Limit     int           // at least 1
}

// Bounds returns the record.Bounds of the positions that q selects.
func (q Query) Bounds() (low, high string, err error) {
	return record.Bounds(q.From, q.To, q.Cursor, q.Ascending)
}

// Store holds events by workspace and id. A workspace is a non-empty string without '#'. A Store is
// safe for concurrent use. It removes expired events only after some time; until then, Get, List
// and Changes hide those that have expired by its clock. Every method may fail with a *record.Error
// with code Unavailable.
type Store interface {
	// Create stores the event that d.At returns for the current time of the store's clock, unless
	// the workspace has an unexpired event with the same id. It returns the new or existing event,
	// and whether this call stored it.
	Create(ctx context.Context, workspace string, d Draft) (stored Event, created bool, err error)

	// Get returns an event, or a *record.Error with code NotFound.
	Get(ctx context.Context, workspace, id string) (Event, error)

	// List returns the events that q selects. A page may have fewer than q.Limit, or none, even
	// if more follow: record.MaxPageBytes limits its size, and record.MaxPassedBytes limits how
	// many expired events it skips. The error may be record.ErrCursor.
	List(ctx context.Context, workspace string, q Query) (record.Page[Event], error)

	// Changes returns the events that q selects, in order of CreatedAt, then id. Events never
	// change, so each appears only once. The page and the error are as in List, and the page says
	// what is settled.
	Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[Event], error)

	// Count returns how many of the events that q selects have CreatedAt <= until and had not
	// expired by then. It ignores q.Cursor and q.Limit.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Erase removes the events that q selects. Erased.Events says how many it removed, even if
	// there is an error.
	Erase(ctx context.Context, workspace string, q Erasure) (Erased, error)
}

// Erasure requests the removal of one page of an entity's events, in ascending order of
// Position.
type Erasure struct {
	EntityID string
	Until    record.Time   // only events created at this time or before, and those that a wrong clock has stamped more than 2*record.MaxClockSkew ahead of the store's time
	Cursor   record.Cursor // Next of the previous page; "" for the first page
	Limit    int           // maximum number of events to read, at least 1
}

// Erased is the result of an Erasure.
type Erased struct {
	Events int64         // how many were removed
	Next   record.Cursor // where the next page starts; "" if no more events follow
}

// Create stores the event that d describes, with the current time. If the same event already
// exists, it is returned, and created is false. The error has code Conflict if the id belongs
// to a different event, and code Invalid if a field is invalid. If d has no OccurredAt, it
// matches an event with any OccurredAt.
func Create(ctx context.Context, s Store, workspace string, d Draft) (stored Event, created bool, err error) {
	e := d.At(time.Time{})
	if err := record.Check(e.Members(nil)).Err(); err != nil {
		return Event{}, false, err
	}
	stored, created, err = s.Create(ctx, workspace, d)
	if err != nil {
		return Event{}, false, err
	}
	if d.OccurredAt == nil {
		e.OccurredAt = stored.OccurredAt
	}
	if !created && !record.Same(e.Members(nil), stored.Members(nil)) {
		return Event{}, false, record.ConflictError("event", e.ID)
	}
	return stored, created, nil
}
