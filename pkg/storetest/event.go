package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The first and the last record.Time, and one between them.
var (
	first     = recordAt("0000-01-01T00:00:00Z")
	eventNoon = recordAt("2026-01-02T12:00:00Z")
	last      = recordAt("9999-12-31T23:59:59.999Z")
)

// laterEvent returns eventNoon plus d.
func laterEvent(d time.Duration) record.Time { return record.TimeOf(eventNoon.Time().Add(d)) }

var eventKind = recordKind[event.Event, eventStore]{
	noun:       "event",
	id:         func(e event.Event) string { return e.ID },
	createdAt:  func(e event.Event) record.Time { return e.CreatedAt },
	attributes: func(e event.Event) record.Attributes { return e.Attributes },
	plain:      func(id string) event.Event { return plainEvent(id, eventNoon) },
	// Variants differ in time. If a store wrongly keeps several of them under one id, a list
	// shows all of them.
	variant: func(id string, n int) event.Event {
		e := plainEvent(id, laterEvent(time.Duration(1+n)*time.Second))
		e.Name, e.EntityID = fmt.Sprintf("variant %d", n), fmt.Sprintf("e-%d", n)
		e.Attributes, e.CreatedAt = record.Attributes(fmt.Sprintf(`{"n":%d}`, n)), e.OccurredAt
		return e
	},
	with: func(e event.Event, name string, attributes record.Attributes) event.Event {
		e.Name, e.Attributes = name, attributes
		return e
	},
	extra: []event.Event{
		{ID: "first", Name: "n", EntityID: "e", OccurredAt: first, Attributes: record.Attributes(`{}`), CreatedAt: last},
		{ID: "last", Name: "n", EntityID: "e", OccurredAt: last, Attributes: record.Attributes(`{}`), CreatedAt: first},
		{ID: "millisecond", Name: "n", EntityID: "e", OccurredAt: laterEvent(time.Millisecond), Attributes: record.Attributes(`{}`), CreatedAt: eventNoon},
		{ID: "no-entity", Name: "n", OccurredAt: eventNoon, Attributes: record.Attributes(`{}`), CreatedAt: eventNoon},
		{ID: "long-entity", Name: "n", EntityID: strings.Repeat("y", record.MaxIDLength), OccurredAt: eventNoon, Attributes: record.Attributes(`{}`), CreatedAt: eventNoon},
	},
	lists: func(ctx context.Context, s eventStore, workspace string) []recordList[event.Event] {
		return []recordList[event.Event]{
			listEvents(ctx, s, workspace, event.Query{}),
			listEvents(ctx, s, workspace, event.Query{Ascending: true}),
		}
	},
	others: func(ctx context.Context, s eventStore) map[string]error {
		_, countErr := s.Count(ctx, workspace, event.Query{}, eventNoon)
		_, changesErr := s.Changes(ctx, workspace, record.SyncQuery{Limit: 1})
		_, eraseErr := s.Erase(ctx, workspace, event.Erasure{EntityID: "u-1", Until: last, Limit: 1})
		return map[string]error{"count": countErr, "changes": changesErr, "erase": eraseErr}
	},
}

// OpenEvents creates an empty database and returns a function that opens it with a clock.
type OpenEvents func(t *testing.T) func(now func() time.Time) (event.Store, error)

type eventStore struct {
	event.Store
	open func(now func() time.Time) (event.Store, error)
}

func (open OpenEvents) store(t *testing.T) eventStore {
	s := eventStore{open: open(t)}
	s.Store = s.at(eventNoon)
	return s
}

func (s eventStore) at(now record.Time) event.Store {
	at, err := s.open(now.Time)
	if err != nil {
		panic(err)
	}
	return at
}

// create stores e as if the time were e.CreatedAt.
func (s eventStore) create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	text, err := e.AppendJSON(nil)
	if err != nil {
		return event.Event{}, false, err
	}
	d, err := event.Parse(text, record.SetByService(e.Members(nil))...)
	if err != nil {
		return event.Event{}, false, err
	}
	if (e.ExpiresAt != record.Time{}) {
		d.KeepFor = e.ExpiresAt.Time().Sub(e.CreatedAt.Time())
	}
	return s.at(e.CreatedAt).Create(ctx, workspace, d)
}

// Events tests an event.Store. Its lists must contain an event as soon as it is created.
func Events(t *testing.T, open OpenEvents) {
	eventKind.run(t, open.store)
	runAll(t, open.store, []test[eventStore]{
		{name: "a list is in order of time, then in byte order of id", run: testEventOrder},
		{name: "a page may end at an event that is erased before the next page", run: testAfterErased},
		{name: "a cursor that no page can have is rejected", run: testBadEventCursors},
		{name: "events created between pages neither repeat nor hide others", run: testCreatesBetweenPages},
		{name: "a list contains only the events of an entity and of a range of times", run: testFilters},
		{name: "pages of one entity are in order and contain every event once", run: testEntityPages},
		{name: "a count includes matching events that were created by a given time and had not expired", run: testEventCount},
		{name: "a list of changes is in order of creation and contains only events in the requested time range", run: testEventChanges},
		{name: "a list of the changes of an entity contains the other events as gone", run: testFilteredEvents},
		{name: "an erasure removes the events of an entity that were created up to a given time", run: testEventErase},
		{name: "an expired event can be replaced and erased", run: testExpired},
		{name: "a page skips about a megabyte of expired events", run: testPagesOfExpired},
	})
}

func plainEvent(id string, occurred record.Time) event.Event {
	e := event.Event{ID: id, Name: "login", EntityID: "u-1", OccurredAt: occurred, Attributes: record.Attributes(`{"a":1}`), CreatedAt: recordAt("2026-01-02T15:04:05.678Z")}
	fillTexts(e.Members(nil))
	return e
}

func listEvents(ctx context.Context, s eventStore, workspace string, q event.Query) recordList[event.Event] {
	return recordList[event.Event]{
		compare: func(a, b event.Event) int {
			if !q.Ascending {
				a, b = b, a
			}
			return a.Position().Compare(b.Position())
		},
		page: func(cursor record.Cursor, limit int) (record.Page[event.Event], error) {
			q := q
			q.Cursor, q.Limit = cursor, limit
			return s.List(ctx, workspace, q)
		},
	}
}

func eventIDs(events []event.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// testEventOrder uses events with short ids and the same OccurredAt, and events whose order by
// id differs from their order by time.
func testEventOrder(t *testing.T, s eventStore) {
	var events []event.Event
	for c := range byte(128) {
		if id := string(c); record.CheckID(id) == nil {
			events = append(events, plainEvent(id, eventNoon), plainEvent("a"+id, eventNoon))
		}
	}
	for i, occurred := range []record.Time{
		last, laterEvent(time.Millisecond), laterEvent(time.Second), laterEvent(-time.Millisecond), first, recordAt("0000-01-01T00:00:00.001Z"),
		recordAt("0999-12-31T23:59:59.999Z"), recordAt("1000-01-01T00:00:00Z"), recordAt("1969-12-31T23:59:59.999Z"), recordAt("1970-01-01T00:00:00Z"),
	} {
		events = append(events, plainEvent(fmt.Sprintf("time-%d", i), occurred), plainEvent(fmt.Sprintf("TIME-%d", i), occurred))
	}
	eventKind.fill(t, s, workspace, events...)
	for _, l := range eventKind.lists(t.Context(), s, workspace) {
		l.check(t, events, 7, len(events), 200)
	}
}

// testAfterErased erases the event at which a page ended. Every event belongs to an entity of its own.
func testAfterErased(t *testing.T, s eventStore) {
	events := []event.Event{
		plainEvent("x", first), plainEvent("b", eventNoon), plainEvent("d", eventNoon), plainEvent("a", laterEvent(time.Second)), plainEvent("x2", last),
	}
	for i := range events {
		events[i].EntityID = events[i].ID
	}
	eventKind.fill(t, s, workspace, events...)
	for i, l := range eventKind.lists(t.Context(), s, workspace) {
		sorted := slices.SortedFunc(slices.Values(events), l.compare)
		for n := range len(sorted) - 1 {
			_, next := l.read(t, "", n+1)
			gone := sorted[n]
			eraseAll(t, s, event.Erasure{EntityID: gone.ID, Until: last, Limit: 1})
			if page, _ := l.read(t, next, 10); !slices.Equal(eventIDs(page), eventIDs(sorted[n+1:])) {
				t.Errorf("list %d after %s: got %v, want %v", i, gone.ID, eventIDs(page), eventIDs(sorted[n+1:]))
			}
			eventKind.fill(t, s, workspace, gone)
		}
	}
}

func testBadEventCursors(t *testing.T, s eventStore) {
	for _, l := range append(eventKind.lists(t.Context(), s, workspace), changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{})) {
		wantBadCursors(t, notPositions, func(cursor record.Cursor) error {
			_, err := l.page(cursor, 1)
			return err
		})
	}
	wantBadCursors(t, notPositions, func(cursor record.Cursor) error {
		_, err := s.Erase(t.Context(), workspace, event.Erasure{EntityID: "a", Cursor: cursor, Limit: 1})
		return err
	})
}

func testCreatesBetweenPages(t *testing.T, s eventStore) {
	var old []event.Event
	for i := range 6 {
		old = append(old, plainEvent(fmt.Sprintf("old-%d", i), laterEvent(time.Duration(i)*time.Second)))
	}
	eventKind.fill(t, s, workspace, old...)
	l := listEvents(t.Context(), s, workspace, event.Query{})
	page, next := l.read(t, "", 3)
	if want := []string{"old-5", "old-4", "old-3"}; !slices.Equal(eventIDs(page), want) || next == "" {
		t.Fatalf("the first page has %v, next %q; want %v and a cursor", eventIDs(page), next, want)
	}
	after := page[2]
	eventKind.fill(t, s, workspace,
		plainEvent("newest", last),
		plainEvent("new-beside", laterEvent(4*time.Second)),
		plainEvent("a-late", after.OccurredAt), // sorts just after the last event of the first page
		plainEvent("late", laterEvent(1500*time.Millisecond)),
		plainEvent("oldest", first),
	)
	got := eventIDs(slices.Concat(l.walk(t, next, 2)...))
	if want := []string{"a-late", "old-2", "late", "old-1", "old-0", "oldest"}; !slices.Equal(got, want) {
		t.Errorf("the pages after the first have %v, want %v", got, want)
	}
}

// testFilters reads the list for every combination of filters.
func testFilters(t *testing.T, s eventStore) {
	times := []record.Time{first, laterEvent(-time.Millisecond), eventNoon, laterEvent(time.Millisecond), last}
	var events []event.Event
	for _, entityID := range []string{"", "u", "u:1", "v"} {
		for i, occurred := range times {
			e := plainEvent(fmt.Sprintf("%s.%d", entityID, i), occurred)
			e.EntityID = entityID
			events = append(events, e)
		}
	}
	eventKind.fill(t, s, workspace, events...)
	eventKind.fillPlain(t, s, workspace+"-neighbor", "neighbor")
	bounds := []*record.Time{nil}
	for _, b := range append(times, laterEvent(time.Hour)) {
		bounds = append(bounds, &b)
	}
	for _, entityID := range []string{"", "u", "u:1", "none"} {
		for i, from := range bounds {
			for j, to := range bounds {
				want := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool {
					return entityID != "" && e.EntityID != entityID || from != nil && e.OccurredAt.Compare(*from) < 0 || to != nil && e.OccurredAt.Compare(*to) >= 0
				})
				// Each bound is used in both directions.
				listEvents(t.Context(), s, workspace, event.Query{EntityID: entityID, From: from, To: to, Ascending: (i+j)%2 == 0}).check(t, want, 7)
			}
		}
	}
}

func testEntityPages(t *testing.T, s eventStore) {
	var events []event.Event
	for i := range 12 {
		events = append(events, plainEvent(fmt.Sprintf("%02d", 99-i), laterEvent(time.Duration(i/3)*time.Second)))
		other := plainEvent(fmt.Sprintf("other-%d", i), laterEvent(time.Duration(i/3)*time.Second))
		other.EntityID = "u-10"
		eventKind.fill(t, s, workspace, other)
	}
	eventKind.fill(t, s, workspace, events...)
	for _, ascending := range []bool{true, false} {
		listEvents(t.Context(), s, workspace, event.Query{EntityID: "u-1", Ascending: ascending}).check(t, events, 1, 5, 12, 13)
	}
}

func testEventCount(t *testing.T, s eventStore) {
	var events []event.Event
	for i := range 12 {
		e := plainEvent(fmt.Sprintf("%02d", i), laterEvent(time.Duration(i)*time.Minute))
		e.EntityID = []string{"a", "b", ""}[i%3]
		e.CreatedAt = laterEvent(time.Duration(i/4) * time.Millisecond)
		events = append(events, e)
	}
	eventKind.fill(t, s, workspace, events...)
	brief := plainEvent("brief", laterEvent(3*time.Minute))
	brief.EntityID, brief.CreatedAt, brief.ExpiresAt = "brief", eventNoon, laterEvent(time.Minute)
	eventKind.fill(t, s, workspace, brief)
	from, to := laterEvent(2*time.Minute), laterEvent(10*time.Minute)
	for _, tt := range []struct {
		workspace string
		until     record.Time
		q         event.Query
		want      int64
	}{
		{workspace, laterEvent(-time.Millisecond), event.Query{}, 0},
		{workspace, eventNoon, event.Query{}, 5},
		{workspace, laterEvent(time.Millisecond), event.Query{}, 9},
		{workspace, laterEvent(time.Hour), event.Query{}, 12},
		{workspace, laterEvent(time.Hour), event.Query{Cursor: "ignored", Limit: 1, Ascending: true}, 12},
		{workspace, laterEvent(time.Hour), event.Query{EntityID: "a"}, 4},
		{workspace, eventNoon, event.Query{EntityID: "a"}, 2},
		{workspace, laterEvent(time.Hour), event.Query{From: &from, To: &to}, 8},
		{workspace, eventNoon, event.Query{From: &from, To: &to}, 3},
		{workspace, laterEvent(time.Hour), event.Query{From: &to, To: &from}, 0},
		{workspace, laterEvent(time.Hour), event.Query{EntityID: "b", From: &from, To: &to}, 2},
		{workspace, laterEvent(time.Minute - time.Millisecond), event.Query{EntityID: "brief"}, 1},
		{workspace, laterEvent(time.Minute), event.Query{EntityID: "brief"}, 0},
		{workspace, laterEvent(time.Minute - time.Millisecond), event.Query{}, 13},
		{workspace, laterEvent(time.Minute), event.Query{}, 12},
		{"nobody", laterEvent(time.Hour), event.Query{}, 0},
	} {
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, tt.until); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}
