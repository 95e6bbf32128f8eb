// Package event holds the event, one of the two kinds of records that clients
// put in and get out, and what a store of events must do.
package event

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sluice/pkg/record"
)

// Event is a record of something that happened. It never changes. Its JSON is
// the same in the API, in export files and in import files.
type Event struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	EntityID   OptionalID        `json:"entity_id"` // the entity it concerns, if any
	OccurredAt record.Time       `json:"occurred_at"`
	Attributes record.Attributes `json:"attributes"`
	CreatedAt  record.Time       `json:"created_at"`

	ExpiresAt record.Time `json:"-"` // whole seconds; zero if it never expires
}

// AppendJSON appends the JSON of e, as its struct tags describe it, to b. The
// attributes are copied without validating them again. It fails if a string is
// not UTF-8 or the attributes are not an object.
func (e Event) AppendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("id", e.ID)
	w.String("name", e.Name)
	w.OptionalString("entity_id", string(e.EntityID))
	w.Time("occurred_at", e.OccurredAt)
	w.Attributes("attributes", e.Attributes)
	w.Time("created_at", e.CreatedAt)
	return w.End()
}

// Retention returns the ExpiresAt of an event that is created at created and kept for
// that many days; zero for 0.
func Retention(created time.Time, days int) record.Time {
	if days == 0 {
		return record.Time{}
	}
	return record.TimeOf(created.AddDate(0, 0, days).Truncate(time.Second))
}

// Expired reports whether e has expired at a time.
func (e Event) Expired(at record.Time) bool {
	return e.ExpiresAt != record.Time{} && e.ExpiresAt.Compare(at) <= 0
}

// OptionalID is an id, or "" for none, which is null in JSON.
type OptionalID string

// MarshalJSON writes null for "".
func (id OptionalID) MarshalJSON() ([]byte, error) {
	if id == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(id))
}

// Columns returns the names of the members of an event's JSON in their order,
// without attributes. They are the first columns of a CSV file.
func Columns() []string { return []string{"id", "name", "entity_id", "occurred_at", "created_at"} }

// Parse decodes the JSON of a new event: the body of a request or a line of an
// import file. Every member but name may be absent or null: then ID and EntityID
// are "", OccurredAtSet is false and Attributes is {}. Members named in ignored,
// such as the time that an export has and the service sets, are skipped. The
// error is a *record.Error of kind Malformed or Invalid; that names every wrong
// member.
func Parse(text []byte, ignored ...string) (New, error) {
	e := New{Event: Event{Attributes: record.Attributes("{}")}}
	d := record.Decoders{
		"id":         record.Text(&e.ID, record.CheckID),
		"name":       record.Text(&e.Name, checkName),
		"entity_id":  record.Text(&e.EntityID, record.CheckID),
		"attributes": record.Object(&e.Attributes),
		"occurred_at": func(value []byte) error {
			e.OccurredAtSet = true
			return record.Instant(&e.OccurredAt)(value)
		},
	}
	for _, name := range ignored {
		d[name] = nil
	}
	if err := d.Decode(text); err != nil {
		return e, err
	}
	var wrong record.Fields
	wrong.Check("name", checkName(e.Name)) // it may be absent
	return e, wrong.Err()
}

func checkName(name string) error {
	if name == "" {
		return errors.New("is required: 1 to 128 characters")
	}
	return record.CheckName(name)
}

// Position is an event's place in a list: by OccurredAt, then by the bytes of ID.
type Position struct {
	OccurredAt record.Time
	ID         string
}

// Position returns the place of e in a list.
func (e Event) Position() Position { return Position{OccurredAt: e.OccurredAt, ID: e.ID} }

// Compare returns -1, 0 or +1 if p is before, at or after q in ascending order.
func (p Position) Compare(q Position) int {
	return cmp.Or(p.OccurredAt.Compare(q.OccurredAt), cmp.Compare(p.ID, q.ID))
}

// String returns a text that sorts as positions do: the fixed-width time, '#', the
// id. Stores use it as a sort key.
func (p Position) String() string { return p.OccurredAt.String() + "#" + p.ID }

// Query asks for a page of a workspace's events in order of Position.
type Query struct {
	EntityID  OptionalID   // only events of this entity; "" for all
	From      *record.Time // only events at this time or later; nil for all
	To        *record.Time // only events before this time; nil for all
	Ascending bool         // oldest first; newest first by default
	After     *Position    // exclusive, in the direction of the list; nil starts at its beginning
	Limit     int          // most events to return, at least 1
}

// Bounds returns what record.Bounds returns for q.
func (q Query) Bounds() (low, high string) {
	after := ""
	if q.After != nil {
		after = q.After.String()
	}
	return record.Bounds(q.From, q.To, after, q.Ascending)
}

// Page is a part of a list.
type Page struct {
	Events []Event
	More   bool // there are events after the last of these
}

// Store keeps events by workspace and id. Implementations are safe for
// concurrent use. A workspace is a non-empty string without '#'.
//
// A store may return events that have expired, until it removes them; the functions Get,
// List and ListArrivals hide them.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Create stores e unless the workspace has an event with its id that has not expired
	// at e.CreatedAt. It returns the event that is stored afterwards and whether that is e.
	Create(ctx context.Context, workspace string, e Event) (stored Event, created bool, err error)

	// Get returns an event, or a *record.Error of kind NotFound.
	Get(ctx context.Context, workspace, id string) (Event, error)

	// List returns the events that q asks for. The page may be shorter than
	// q.Limit while More is true: a page's bytes are bounded too
	// (record.MaxPageBytes).
	List(ctx context.Context, workspace string, q Query) (Page, error)

	// Arrivals returns the events that q asks for, in order of CreatedAt, then id. The
	// page may be shorter than q.Limit like that of List.
	Arrivals(ctx context.Context, workspace string, q record.SyncQuery) (Page, error)

	// Count returns how many events q asks for, whatever its After and Limit,
	// that were created at until or before.
	Count(ctx context.Context, workspace string, q Query, until record.Time) (int64, error)

	// Erase removes the events that q asks for. After an error, Erased.Events is how many
	// it has removed nonetheless.
	Erase(ctx context.Context, workspace string, q Erasure) (Erased, error)
}

// Erasure asks to remove the events of one entity, a page at a time, in ascending order
// of Position.
type Erasure struct {
	EntityID string
	Until    record.Time // only events that were created at this time or before
	After    *Position   // exclusive; nil starts at the first
	Limit    int         // most events to look at, at least 1
}

// Erased is the result of an Erasure.
type Erased struct {
	Events int64     // that were removed
	Last   *Position // of the last event that was looked at, after which the next page begins; nil if none was
	More   bool      // there are events after Last
}

// Get returns an event that has not expired at now, or a *record.Error of kind NotFound.
func Get(ctx context.Context, s Store, workspace, id string, now time.Time) (Event, error) {
	e, err := s.Get(ctx, workspace, id)
	switch {
	case err != nil:
		return Event{}, err
	case e.Expired(record.TimeOf(now)):
		return Event{}, record.NotFoundError("event", id)
	}
	return e, nil
}

// ListPage is a part of a list without expired events.
type ListPage struct {
	Events []Event
	More   bool     // there may be events after Last
	Last   Position // of the last event that was read; the next page starts after it
}

// List returns the events that q asks for and that have not expired at now. The page has
// fewer than q.Limit events if some of those that were read have, none in the extreme.
func List(ctx context.Context, s Store, workspace string, q Query, now time.Time) (ListPage, error) {
	page, err := s.List(ctx, workspace, q)
	if err != nil || len(page.Events) == 0 {
		return ListPage{}, err
	}
	last := page.Events[len(page.Events)-1].Position()
	live := slices.DeleteFunc(page.Events, func(e Event) bool { return e.Expired(record.TimeOf(now)) })
	return ListPage{Events: live, More: page.More, Last: last}, nil
}

// New is an event as a client describes it.
type New struct {
	Event
	OccurredAtSet bool // the client gave OccurredAt; otherwise it becomes the time of creation
}

// Create stamps e with now and stores it. It fails with kind Invalid if a field that
// a client sets is not valid. A repeat with the same content changes nothing and
// returns the stored event with created false; with other content it fails with kind
// Conflict. A repeat that leaves OccurredAt to the service matches whatever it was
// set to.
func Create(ctx context.Context, s Store, workspace string, e New, now time.Time) (stored Event, created bool, err error) {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(e.ID))
	wrong.Check("name", checkName(e.Name))
	if e.EntityID != "" {
		wrong.Check("entity_id", record.CheckID(string(e.EntityID)))
	}
	if err := wrong.Err(); err != nil {
		return Event{}, false, err
	}
	e.CreatedAt = record.TimeOf(now)
	if !e.OccurredAtSet {
		e.OccurredAt = e.CreatedAt
	}
	stored, created, err = s.Create(ctx, workspace, e.Event)
	if err != nil {
		return Event{}, false, err
	}
	if !created && !e.describes(stored) {
		return Event{}, false, record.ConflictError("event", e.ID)
	}
	return stored, created, nil
}

func (e New) describes(stored Event) bool {
	return e.Name == stored.Name &&
		e.EntityID == stored.EntityID &&
		(!e.OccurredAtSet || e.OccurredAt == stored.OccurredAt) &&
		record.SameAttributes(e.Attributes, stored.Attributes)
}
