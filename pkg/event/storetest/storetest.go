// Package storetest is the conformance suite of event.Store.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/storetest"
)

// workspace is the workspace of tests that need only one workspace.
const workspace = storetest.Workspace

// The first and the last record.Time, and a time between them.
var (
	first = storetest.At("0000-01-01T00:00:00Z")
	noon  = storetest.At("2026-01-02T12:00:00Z")
	last  = storetest.At("9999-12-31T23:59:59.999Z")
)

// later returns the time that is d after noon.
func later(d time.Duration) record.Time { return record.TimeOf(noon.Time().Add(d)) }

var kind = storetest.Kind[event.Event, event.Store]{
	Noun:       "event",
	ID:         func(e event.Event) string { return e.ID },
	Attributes: func(e event.Event) record.Attributes { return e.Attributes },
	Plain:      func(id string) event.Event { return plain(id, noon) },
	// Each variant has a different time. If a store wrongly keeps several variants of an
	// id, its lists therefore contain all of them.
	Variant: func(id string, n int) event.Event {
		e := plain(id, later(time.Duration(1+n)*time.Second))
		e.Name, e.EntityID = fmt.Sprintf("variant %d", n), event.OptionalID(fmt.Sprintf("e-%d", n))
		e.Attributes, e.CreatedAt = record.Attributes(fmt.Sprintf(`{"n":%d}`, n)), e.OccurredAt
		return e
	},
	With: func(e event.Event, name string, attributes record.Attributes) event.Event {
		e.Name, e.Attributes = name, attributes
		return e
	},
	Extra: []event.Event{
		{ID: "first", Name: "n", EntityID: "e", OccurredAt: first, Attributes: record.Attributes(`{}`), CreatedAt: last},
		{ID: "last", Name: "n", EntityID: "e", OccurredAt: last, Attributes: record.Attributes(`{}`), CreatedAt: first},
		{ID: "millisecond", Name: "n", EntityID: "e", OccurredAt: later(time.Millisecond), Attributes: record.Attributes(`{}`), CreatedAt: noon},
		{ID: "no-entity", Name: "n", OccurredAt: noon, Attributes: record.Attributes(`{}`), CreatedAt: noon},
		{ID: "long-entity", Name: "n", EntityID: event.OptionalID(slices.Repeat([]byte("y"), record.MaxIDLength)), OccurredAt: noon, Attributes: record.Attributes(`{}`), CreatedAt: noon},
	},
	Lists: func(ctx context.Context, s event.Store, workspace string) []storetest.List[event.Event] {
		return []storetest.List[event.Event]{
			listOf(ctx, s, workspace, event.Query{}),
			listOf(ctx, s, workspace, event.Query{Ascending: true}),
		}
	},
	Others: func(ctx context.Context, s event.Store) map[string]error {
		_, countErr := s.Count(ctx, workspace, event.Query{}, noon)
		_, arrivalsErr := s.Arrivals(ctx, workspace, record.SyncQuery{Limit: 1})
		_, eraseErr := s.Erase(ctx, workspace, event.Erasure{EntityID: "u-1", Until: last, Limit: 1})
		return map[string]error{"count": countErr, "arrivals": arrivalsErr, "erase": eraseErr}
	},
}

// Run checks that the stores returned by open fulfill the contract of event.Store. Each call
// of open must return an empty store. The lists of the store must contain an event as soon as
// it is created.
func Run(t *testing.T, open func(t *testing.T) event.Store) {
	kind.Run(t, open)
	storetest.RunAll(t, open, []storetest.Test[event.Store]{
		{Name: "a list is in order of time, then in byte order of id", Run: testOrder},
		{Name: "a page starts after a position without an event", Run: testAfterAbsentPosition},
		{Name: "events created between pages neither repeat nor hide others", Run: testCreatesBetweenPages},
		{Name: "a list contains only the events of an entity and of a range of times", Run: testFilters},
		{Name: "pages of one entity are in order and contain every event once", Run: testEntityPages},
		{Name: "a count includes matching events that were created by a given time and had not expired", Run: testCount},
		{Name: "a list of arrivals is in order of creation and contains only events in the requested time range", Run: testArrivals},
		{Name: "an erasure removes the events of an entity that were created up to a given time", Run: testErase},
		{Name: "an expired event can be replaced and erased", Run: testExpired},
	})
}

// plain returns a simple event with an id and a time.
func plain(id string, occurred record.Time) event.Event {
	return event.Event{ID: id, Name: "login", EntityID: "u-1", OccurredAt: occurred, Attributes: record.Attributes(`{"a":1}`), CreatedAt: storetest.At("2026-01-02T15:04:05.678Z")}
}

// listOf returns the list of the events that q selects.
func listOf(ctx context.Context, s event.Store, workspace string, q event.Query) storetest.List[event.Event] {
	return storetest.List[event.Event]{
		Compare: func(a, b event.Event) int {
			if !q.Ascending {
				a, b = b, a
			}
			return a.Position().Compare(b.Position())
		},
		Page: func(after *event.Event, limit int) ([]event.Event, bool, error) {
			q := q
			q.Limit = limit
			if after != nil {
				position := after.Position()
				q.After = &position
			}
			page, err := s.List(ctx, workspace, q)
			return page.Events, page.More, err
		},
	}
}

func ids(events []event.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// testOrder creates events that have short ids and the same OccurredAt, and events whose
// order by id differs from their order by time.
func testOrder(t *testing.T, s event.Store) {
	var events []event.Event
	for c := range byte(128) {
		if id := string(c); record.CheckID(id) == nil {
			events = append(events, plain(id, noon), plain("a"+id, noon))
		}
	}
	for i, occurred := range []record.Time{
		last, later(time.Millisecond), later(time.Second), later(-time.Millisecond), first, storetest.At("0000-01-01T00:00:00.001Z"),
		storetest.At("0999-12-31T23:59:59.999Z"), storetest.At("1000-01-01T00:00:00Z"), storetest.At("1969-12-31T23:59:59.999Z"), storetest.At("1970-01-01T00:00:00Z"),
	} {
		events = append(events, plain(fmt.Sprintf("time-%d", i), occurred), plain(fmt.Sprintf("TIME-%d", i), occurred))
	}
	kind.Fill(t, s, workspace, events...)
	for _, l := range kind.Lists(t.Context(), s, workspace) {
		l.Check(t, events, 7, len(events), 200)
	}
}

func testAfterAbsentPosition(t *testing.T, s event.Store) {
	events := []event.Event{
		plain("x", first), plain("b", noon), plain("d", noon), plain("a", later(time.Second)), plain("x2", last),
	}
	kind.Fill(t, s, workspace, events...)
	for _, after := range []event.Event{
		{OccurredAt: first, ID: ""},
		{OccurredAt: first, ID: "x"},
		{OccurredAt: first, ID: "x-"},
		{OccurredAt: later(-time.Millisecond), ID: "z"},
		{OccurredAt: noon, ID: ""},
		{OccurredAt: noon, ID: "a"},
		{OccurredAt: noon, ID: "b"},
		{OccurredAt: noon, ID: "b."},
		{OccurredAt: noon, ID: "c"},
		{OccurredAt: noon, ID: "z"},
		{OccurredAt: later(time.Millisecond), ID: "a"},
		{OccurredAt: later(time.Second), ID: "a"},
		{OccurredAt: last, ID: "x"},
		{OccurredAt: last, ID: "x2"},
		{OccurredAt: last, ID: "z"},
	} {
		for i, l := range kind.Lists(t.Context(), s, workspace) {
			want := slices.DeleteFunc(slices.SortedFunc(slices.Values(events), l.Compare), func(e event.Event) bool { return l.Compare(e, after) <= 0 })
			if page, more := l.Read(t, &after, 10); !slices.Equal(ids(page), ids(want)) || more {
				t.Errorf("list %d after %v: got %v, more %v; want %v and no more", i, after.Position(), ids(page), more, ids(want))
			}
		}
	}
}

func testCreatesBetweenPages(t *testing.T, s event.Store) {
	var old []event.Event
	for i := range 6 {
		old = append(old, plain(fmt.Sprintf("old-%d", i), later(time.Duration(i)*time.Second)))
	}
	kind.Fill(t, s, workspace, old...)
	l := listOf(t.Context(), s, workspace, event.Query{})
	page, more := l.Read(t, nil, 3)
	if want := []string{"old-5", "old-4", "old-3"}; !slices.Equal(ids(page), want) || !more {
		t.Fatalf("the first page has %v, more %v; want %v and more", ids(page), more, want)
	}
	after := page[2]
	kind.Fill(t, s, workspace,
		plain("newest", last),
		plain("new-beside", later(4*time.Second)),
		plain("a-late", after.OccurredAt), // sorts just after the cursor
		plain("late", later(1500*time.Millisecond)),
		plain("oldest", first),
	)
	got := ids(slices.Concat(l.Walk(t, &after, 2)...))
	if want := []string{"a-late", "old-2", "late", "old-1", "old-0", "oldest"}; !slices.Equal(got, want) {
		t.Errorf("the pages after the first have %v, want %v", got, want)
	}
}

// testFilters reads the list for every combination of filters. The list must contain
// exactly the events that match all filters of the combination.
func testFilters(t *testing.T, s event.Store) {
	times := []record.Time{first, later(-time.Millisecond), noon, later(time.Millisecond), last}
	var events []event.Event
	for _, entityID := range []event.OptionalID{"", "u", "u:1", "v"} {
		for i, occurred := range times {
			e := plain(fmt.Sprintf("%s.%d", entityID, i), occurred)
			e.EntityID = entityID
			events = append(events, e)
		}
	}
	kind.Fill(t, s, workspace, events...)
	kind.FillPlain(t, s, workspace+"-neighbor", "neighbor")
	bounds := []*record.Time{nil}
	for _, b := range append(times, later(time.Hour)) {
		bounds = append(bounds, &b)
	}
	for _, entityID := range []event.OptionalID{"", "u", "u:1", "none"} {
		for _, from := range bounds {
			for _, to := range bounds {
				want := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool {
					return entityID != "" && e.EntityID != entityID || from != nil && e.OccurredAt.Compare(*from) < 0 || to != nil && e.OccurredAt.Compare(*to) >= 0
				})
				for _, ascending := range []bool{true, false} {
					listOf(t.Context(), s, workspace, event.Query{EntityID: entityID, From: from, To: to, Ascending: ascending}).Check(t, want, 4)
				}
			}
		}
	}
}

func testEntityPages(t *testing.T, s event.Store) {
	var events []event.Event
	for i := range 12 {
		events = append(events, plain(fmt.Sprintf("%02d", 99-i), later(time.Duration(i/3)*time.Second)))
		other := plain(fmt.Sprintf("other-%d", i), later(time.Duration(i/3)*time.Second))
		other.EntityID = "u-10"
		kind.Fill(t, s, workspace, other)
	}
	kind.Fill(t, s, workspace, events...)
	for _, ascending := range []bool{true, false} {
		listOf(t.Context(), s, workspace, event.Query{EntityID: "u-1", Ascending: ascending}).Check(t, events, 1, 5, 12, 13)
	}
}

func testCount(t *testing.T, s event.Store) {
	var events []event.Event
	for i := range 12 {
		e := plain(fmt.Sprintf("%02d", i), later(time.Duration(i)*time.Minute))
		e.EntityID = []event.OptionalID{"a", "b", ""}[i%3]
		e.CreatedAt = later(time.Duration(i/4) * time.Millisecond)
		events = append(events, e)
	}
	kind.Fill(t, s, workspace, events...)
	brief := plain("brief", later(3*time.Minute))
	brief.EntityID, brief.CreatedAt, brief.ExpiresAt = "brief", noon, later(time.Minute)
	kind.Fill(t, s, workspace, brief)
	from, to := later(2*time.Minute), later(10*time.Minute)
	after := events[5].Position()
	for _, tt := range []struct {
		workspace string
		until     record.Time
		q         event.Query
		want      int64
	}{
		{workspace, later(-time.Millisecond), event.Query{}, 0},
		{workspace, noon, event.Query{}, 5},
		{workspace, later(time.Millisecond), event.Query{}, 9},
		{workspace, later(time.Hour), event.Query{}, 12},
		{workspace, later(time.Hour), event.Query{After: &after, Limit: 1, Ascending: true}, 12},
		{workspace, later(time.Hour), event.Query{EntityID: "a"}, 4},
		{workspace, noon, event.Query{EntityID: "a"}, 2},
		{workspace, later(time.Hour), event.Query{From: &from, To: &to}, 8},
		{workspace, noon, event.Query{From: &from, To: &to}, 3},
		{workspace, later(time.Hour), event.Query{From: &to, To: &from}, 0},
		{workspace, later(time.Hour), event.Query{EntityID: "b", From: &from, To: &to}, 2},
		{workspace, later(time.Minute - time.Millisecond), event.Query{EntityID: "brief"}, 1},
		{workspace, later(time.Minute), event.Query{EntityID: "brief"}, 0},
		{workspace, later(time.Minute - time.Millisecond), event.Query{}, 13},
		{workspace, later(time.Minute), event.Query{}, 12},
		{"nobody", later(time.Hour), event.Query{}, 0},
	} {
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, tt.until); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}
