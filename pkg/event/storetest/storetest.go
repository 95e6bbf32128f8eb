// Package storetest is the suite that every event.Store passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// workspace is where tests that need only one keep their events.
const workspace = "default"

// Run checks that the stores that open returns keep the contract of
// event.Store. Each call of open must return a store without events, whose
// lists show an event as soon as it is created.
func Run(t *testing.T, open func(t *testing.T) event.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s event.Store)
	}{
		{"an event is read back as it was created", testReadBack},
		{"a repeated create changes nothing and returns what is stored", testRepeat},
		{"of concurrent creates of one id one wins and all return it", testOneWinner},
		{"workspaces are apart", testWorkspaces},
		{"a list is in order of time, then of id by bytes", testOrder},
		{"pages of any length hold every event once", testPages},
		{"a page starts after a position where no event is", testAfterAbsentPosition},
		{"events created between pages neither repeat nor hide others", testCreatesBetweenPages},
		{"a page ends before it holds too many bytes", testPageBytes},
		{"what is not there is not found", testNotFound},
		{"a list holds to an entity and to a range of times", testFilters},
		{"pages of one entity are in order and hold every event once", testEntityPages},
		{"a count has the events of a filter that are old enough", testCount},
		{"a cancelled context is an error and creates nothing", testCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// The ends of what a record.Time can be, and an instant between them.
var (
	first = at("0000-01-01T00:00:00Z")
	noon  = at("2026-01-02T12:00:00Z")
	last  = at("9999-12-31T23:59:59.999Z")
)

func at(text string) record.Time {
	t, err := record.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return t
}

// later is d after noon.
func later(d time.Duration) record.Time { return record.TimeOf(noon.Time().Add(d)) }

// plain is an event of that id and time about which nothing is special.
func plain(id string, occurred record.Time) event.Event {
	return event.Event{ID: id, Name: "login", EntityID: "u-1", OccurredAt: occurred, Attributes: record.Attributes(`{"a":1}`), CreatedAt: at("2026-01-02T15:04:05.678Z")}
}

// fill creates events, many at once: concurrent creates of different ids must
// not lose any.
func fill(t *testing.T, s event.Store, workspace string, events ...event.Event) {
	t.Helper()
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for _, e := range events {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, created, err := s.Create(t.Context(), workspace, e); !created || err != nil {
				t.Errorf("create %s: created %v, error %v", e.ID, created, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// list returns one page.
func list(t *testing.T, s event.Store, workspace string, q event.Query) event.Page {
	t.Helper()
	page, err := s.List(t.Context(), workspace, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	if len(page.Events) > q.Limit {
		t.Fatalf("list %+v: %d events", q, len(page.Events))
	}
	if page.More && len(page.Events) == 0 {
		t.Fatalf("list %+v: there are more, yet the page is empty", q)
	}
	if len(page.Events) > 0 && q.After != nil && !beyond(page.Events[0], *q.After, q.Ascending) {
		t.Fatalf("list %+v after %v: the page starts at %v", q, q.After, page.Events[0].Position())
	}
	return page
}

// walk returns the pages of a list, from q.After up to the page that says that
// it is the last. It checks that More never promises too much.
func walk(t *testing.T, s event.Store, workspace string, q event.Query) (pages [][]event.Event) {
	t.Helper()
	for {
		page := list(t, s, workspace, q)
		if len(pages) > 0 && len(page.Events) == 0 {
			t.Fatalf("list %+v: the page before promised more", q)
		}
		pages = append(pages, page.Events)
		if !page.More {
			return pages
		}
		after := page.Events[len(page.Events)-1].Position()
		q.After = &after
	}
}

// beyond reports whether e comes after a position in a list.
func beyond(e event.Event, after event.Position, ascending bool) bool {
	c := e.Position().Compare(after)
	return ascending && c > 0 || !ascending && c < 0
}

// inOrder are the ids of events, sorted as a list must be.
func inOrder(events []event.Event, ascending bool) []string {
	sorted := slices.SortedFunc(slices.Values(events), func(a, b event.Event) int { return a.Position().Compare(b.Position()) })
	if !ascending {
		slices.Reverse(sorted)
	}
	return ids(sorted)
}

func ids(events []event.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func testReadBack(t *testing.T, s event.Store) {
	events := map[string]event.Event{"plain": plain("plain", noon)}
	add := func(id string, change func(e *event.Event)) {
		e := plain(id, noon)
		change(&e)
		events[id] = e
	}
	for i, attributes := range []string{
		`{}`,
		`{"n":12345678901234567890.10,"m":-0,"e":1E+400,"z":1.0}`,
		`{"html":"<a href='/?a&b'>&amp;</a>"}`,
		"{\"separators\":\"\u2028\u2029\",\"odd\":\"\ufeff\ufffe\uffff\x7f\"}",
		`{"escapes":"\u0041\u00e9\/\b\f\n\r\t\\\"\u0000\u2028\ud83d\ude00\u003c"}`,
		`{"composed":"é","decomposed":"é","emoji":"😀","":null}`,
		`{"b":1,"a":[true,false,{"b":2,"a":[]}]}`,
		strings.Repeat(`{"a":`, record.MaxDepth-1) + `{}` + strings.Repeat(`}`, record.MaxDepth-1),
	} {
		add(fmt.Sprintf("attributes-%d", i), func(e *event.Event) { e.Attributes = record.Attributes(attributes) })
	}
	for i, name := range []string{"<&>", `"\`, "\x00\x1f\x7f", "\u2028\ufeff\ufffe", " ", strings.Repeat("😀", record.MaxNameLength)} {
		add(fmt.Sprintf("name-%d", i), func(e *event.Event) { e.Name = name })
	}
	add("first", func(e *event.Event) { e.OccurredAt, e.CreatedAt = first, last })
	add("last", func(e *event.Event) { e.OccurredAt, e.CreatedAt = last, first })
	add("millisecond", func(e *event.Event) { e.OccurredAt = later(time.Millisecond) })
	add("no-entity", func(e *event.Event) { e.EntityID = "" })
	add(strings.Repeat("x", record.MaxIDLength), func(e *event.Event) { e.EntityID = event.OptionalID(strings.Repeat("y", record.MaxIDLength)) })

	for id, want := range events {
		if stored, created, err := s.Create(t.Context(), workspace, want); !created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create %s: created %v, error %v\n got %+v\nwant %+v", id, created, err, stored, want)
		}
		if got, err := s.Get(t.Context(), workspace, id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("get %s: error %v\n got %+v\nwant %+v", id, err, got, want)
		}
		if stored, created, err := s.Create(t.Context(), workspace, plain(id, noon)); created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create %s again: created %v, error %v\n got %+v\nwant %+v", id, created, err, stored, want)
		}
	}
	page := list(t, s, workspace, event.Query{Limit: 200})
	if len(page.Events) != len(events) || page.More {
		t.Errorf("the list has %d events, more %v; want %d and no more", len(page.Events), page.More, len(events))
	}
	for _, got := range page.Events {
		if want := events[got.ID]; !reflect.DeepEqual(got, want) {
			t.Errorf("list:\n got %+v\nwant %+v", got, want)
		}
	}
}

func testRepeat(t *testing.T, s event.Store) {
	original := plain("a", noon)
	fill(t, s, workspace, original)
	other := event.Event{ID: "a", Name: "other", OccurredAt: later(time.Hour), Attributes: record.Attributes(`{"b":[2]}`), CreatedAt: last}
	for _, again := range []event.Event{original, other} {
		stored, created, err := s.Create(t.Context(), workspace, again)
		if created || err != nil || !reflect.DeepEqual(stored, original) {
			t.Errorf("create %+v: created %v, error %v, stored %+v", again, created, err, stored)
		}
	}
	// Not at the other time either.
	if page := list(t, s, workspace, event.Query{Limit: 10}); !reflect.DeepEqual(page, event.Page{Events: []event.Event{original}}) {
		t.Errorf("the list is %+v", page)
	}
}

// testOneWinner gives every create a time of its own, so that a store which
// keeps more than one shows them all.
func testOneWinner(t *testing.T, s event.Store) {
	const workers = 24
	stored := make([]event.Event, workers)
	var winners, winner atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			<-start
			got, created, err := s.Create(t.Context(), workspace, plain("a", later(time.Duration(i)*time.Second)))
			if err != nil {
				t.Error(err)
			}
			if created {
				winners.Add(1)
				winner.Store(int64(i))
			}
			stored[i] = got
		})
	}
	close(start)
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d creates say that they made the event", winners.Load())
	}
	want := plain("a", later(time.Duration(winner.Load())*time.Second))
	for i, got := range stored {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("create %d returned %+v, want %+v", i, got, want)
		}
	}
	if page := list(t, s, workspace, event.Query{Limit: 200}); !reflect.DeepEqual(page.Events, []event.Event{want}) {
		t.Errorf("the list is %+v, want %+v alone", page.Events, want)
	}
}

func testWorkspaces(t *testing.T, s event.Store) {
	workspaces := []string{"a", "ab", "A", "a.b", "a:", "b", "events", "é"}
	for i, w := range workspaces {
		fill(t, s, w, plain("shared", later(time.Duration(i)*time.Second)), plain("only-"+w, noon))
	}
	for i, w := range workspaces {
		want := []event.Event{plain("only-"+w, noon), plain("shared", later(time.Duration(i)*time.Second))}
		for _, ascending := range []bool{true, false} {
			page := list(t, s, w, event.Query{Ascending: ascending, Limit: 10})
			if got, want := ids(page.Events), inOrder(want, ascending); !slices.Equal(got, want) || page.More {
				t.Errorf("workspace %s lists %v, more %v; want %v and no more", w, got, page.More, want)
			}
			if !slices.ContainsFunc(page.Events, func(e event.Event) bool { return reflect.DeepEqual(e, want[1]) }) {
				t.Errorf("workspace %s lists %+v, want %+v among them", w, page.Events, want[1])
			}
		}
	}
	if page := list(t, s, "abc", event.Query{Limit: 10}); len(page.Events) != 0 || page.More {
		t.Errorf("a workspace without events lists %+v", page)
	}
}

// testOrder has every character of ids at one time, and times in an order that
// is not that of the ids.
func testOrder(t *testing.T, s event.Store) {
	var events []event.Event
	for c := range byte(128) {
		if id := string(c); record.CheckID(id) == nil {
			events = append(events, plain(id, noon), plain("a"+id, noon))
		}
	}
	for i, occurred := range []record.Time{
		last, later(time.Millisecond), later(time.Second), later(-time.Millisecond), first, at("0000-01-01T00:00:00.001Z"),
		at("0999-12-31T23:59:59.999Z"), at("1000-01-01T00:00:00Z"), at("1969-12-31T23:59:59.999Z"), at("1970-01-01T00:00:00Z"),
	} {
		events = append(events, plain(fmt.Sprintf("time-%d", i), occurred), plain(fmt.Sprintf("TIME-%d", i), occurred))
	}
	fill(t, s, workspace, events...)
	for _, ascending := range []bool{true, false} {
		want := inOrder(events, ascending)
		for _, limit := range []int{7, len(want), 200} {
			got := ids(slices.Concat(walk(t, s, workspace, event.Query{Ascending: ascending, Limit: limit})...))
			if !slices.Equal(got, want) {
				t.Errorf("ascending %v, limit %d:\n got %q\nwant %q", ascending, limit, got, want)
			}
		}
	}
}

func testPages(t *testing.T, s event.Store) {
	var events []event.Event
	for i := range 12 {
		// Three at each time, so that pages end between equal times.
		events = append(events, plain(fmt.Sprintf("%02d", 99-i), later(time.Duration(i/3)*time.Second)))
	}
	fill(t, s, workspace, events...)
	fill(t, s, workspace+"-neighbour", plain("00", first), plain("99", last))
	for _, ascending := range []bool{true, false} {
		want := inOrder(events, ascending)
		for _, limit := range []int{1, 2, 3, 4, 5, 6, 11, 12, 13, 200} {
			pages := walk(t, s, workspace, event.Query{Ascending: ascending, Limit: limit})
			if got := ids(slices.Concat(pages...)); !slices.Equal(got, want) {
				t.Errorf("ascending %v, limit %d: got %v", ascending, limit, got)
			}
			if n := (len(want) + limit - 1) / limit; len(pages) != n {
				t.Errorf("ascending %v, limit %d: %d pages, want %d", ascending, limit, len(pages), n)
			}
		}
	}
}

func testAfterAbsentPosition(t *testing.T, s event.Store) {
	events := []event.Event{
		plain("x", first), plain("b", noon), plain("d", noon), plain("a", later(time.Second)), plain("x2", last),
	}
	fill(t, s, workspace, events...)
	for _, after := range []event.Position{
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
		for _, ascending := range []bool{true, false} {
			want := inOrder(slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return !beyond(e, after, ascending) }), ascending)
			page := list(t, s, workspace, event.Query{Ascending: ascending, After: &after, Limit: 10})
			if got := ids(page.Events); !slices.Equal(got, want) || page.More {
				t.Errorf("after %v, ascending %v: got %v, more %v; want %v and no more", after, ascending, got, page.More, want)
			}
		}
	}
}

func testCreatesBetweenPages(t *testing.T, s event.Store) {
	var old []event.Event
	for i := range 6 {
		old = append(old, plain(fmt.Sprintf("old-%d", i), later(time.Duration(i)*time.Second)))
	}
	fill(t, s, workspace, old...)
	page := list(t, s, workspace, event.Query{Limit: 3})
	if got, want := ids(page.Events), []string{"old-5", "old-4", "old-3"}; !slices.Equal(got, want) || !page.More {
		t.Fatalf("the first page has %v, more %v; want %v and more", got, page.More, want)
	}
	after := page.Events[2].Position()
	fill(t, s, workspace,
		plain("newest", last),
		plain("new-beside", later(4*time.Second)),
		plain("a-late", after.OccurredAt), // stands just beyond the cursor
		plain("late", later(1500*time.Millisecond)),
		plain("oldest", first),
	)
	got := ids(slices.Concat(walk(t, s, workspace, event.Query{After: &after, Limit: 2})...))
	if want := []string{"a-late", "old-2", "late", "old-1", "old-0", "oldest"}; !slices.Equal(got, want) {
		t.Errorf("the pages after the first have %v, want %v", got, want)
	}
}

func testPageBytes(t *testing.T, s event.Store) {
	const count, recordBytes = 15, 250_000
	var events []event.Event
	for i := range count {
		e := plain(fmt.Sprintf("%02d", i), later(time.Duration(i)*time.Second))
		e.Attributes = record.Attributes(`{"a":"` + strings.Repeat("<", recordBytes) + `"}`)
		events = append(events, e)
	}
	fill(t, s, workspace, events...)
	for _, limit := range []int{4, 5, 10, 15, 200} {
		q := event.Query{Ascending: limit%2 == 0, Limit: limit}
		pages := walk(t, s, workspace, q)
		if got, want := ids(slices.Concat(pages...)), inOrder(events, q.Ascending); !slices.Equal(got, want) {
			t.Errorf("%+v: got %v", q, got)
		}
		for i, page := range pages {
			size := 0
			for _, e := range page {
				size += len(e.ID) + len(e.Name) + len(e.Attributes)
			}
			if size > record.MaxPageBytes {
				t.Errorf("%+v: page %d has %d bytes", q, i, size)
			}
			if i < len(pages)-1 && len(page) < limit && size < record.MaxPageBytes/2 {
				t.Errorf("%+v: page %d ends after %d events of %d bytes", q, i, len(page), size)
			}
		}
	}
}

func testNotFound(t *testing.T, s event.Store) {
	wantNotFound(t, s, workspace, "a") // in a workspace without events
	fill(t, s, workspace, plain("ab", noon), plain("b", noon))
	fill(t, s, "other", plain("a", noon))
	for _, id := range []string{"a", "aba", "B", "b.", "u-1"} {
		wantNotFound(t, s, workspace, id)
	}
}

func wantNotFound(t *testing.T, s event.Store, workspace, id string) {
	t.Helper()
	got, err := s.Get(t.Context(), workspace, id)
	var failure *record.Error
	if !errors.As(err, &failure) || failure.Kind != record.NotFound {
		t.Errorf("get %s of workspace %s: %+v, error %v; want kind NotFound", id, workspace, got, err)
	}
}

// testFilters holds every combination of filters against the plain meaning of
// each.
func testFilters(t *testing.T, s event.Store) {
	entities := []event.OptionalID{"", "u", "u:1", "v"}
	times := []record.Time{first, later(-time.Millisecond), noon, later(time.Millisecond), last}
	var events []event.Event
	for _, entityID := range entities {
		for i, occurred := range times {
			e := plain(fmt.Sprintf("%s.%d", entityID, i), occurred)
			e.EntityID = entityID
			events = append(events, e)
		}
	}
	fill(t, s, workspace, events...)
	fill(t, s, workspace+"-neighbour", plain("neighbour", noon))
	bounds := []*record.Time{nil}
	for _, b := range append(times, later(time.Hour)) {
		bounds = append(bounds, &b)
	}
	for _, entityID := range []event.OptionalID{"", "u", "u:1", "none"} {
		for _, from := range bounds {
			for _, to := range bounds {
				for _, ascending := range []bool{true, false} {
					q := event.Query{EntityID: entityID, From: from, To: to, Ascending: ascending, Limit: 4}
					want := inOrder(slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool {
						return entityID != "" && e.EntityID != entityID || from != nil && e.OccurredAt.Compare(*from) < 0 || to != nil && e.OccurredAt.Compare(*to) >= 0
					}), ascending)
					if got := ids(slices.Concat(walk(t, s, workspace, q)...)); !slices.Equal(got, want) {
						t.Errorf("entity %q from %v to %v, ascending %v:\n got %q\nwant %q", entityID, from, to, ascending, got, want)
					}
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
		fill(t, s, workspace, other)
	}
	fill(t, s, workspace, events...)
	for _, ascending := range []bool{true, false} {
		want := inOrder(events, ascending)
		for _, limit := range []int{1, 5, 12, 13} {
			pages := walk(t, s, workspace, event.Query{EntityID: "u-1", Ascending: ascending, Limit: limit})
			if got := ids(slices.Concat(pages...)); !slices.Equal(got, want) {
				t.Errorf("ascending %v, limit %d: got %v, want %v", ascending, limit, got, want)
			}
			if n := (len(want) + limit - 1) / limit; len(pages) != n {
				t.Errorf("ascending %v, limit %d: %d pages, want %d", ascending, limit, len(pages), n)
			}
		}
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
	fill(t, s, workspace, events...)
	from, to := later(2*time.Minute), later(10*time.Minute)
	after := events[5].Position()
	for _, tt := range []struct {
		workspace string
		until     record.Time
		q         event.Query
		want      int64
	}{
		{workspace, later(-time.Millisecond), event.Query{}, 0},
		{workspace, noon, event.Query{}, 4},
		{workspace, later(time.Millisecond), event.Query{}, 8},
		{workspace, later(time.Hour), event.Query{}, 12},
		{workspace, later(time.Hour), event.Query{After: &after, Limit: 1, Ascending: true}, 12},
		{workspace, later(time.Hour), event.Query{EntityID: "a"}, 4},
		{workspace, noon, event.Query{EntityID: "a"}, 2},
		{workspace, later(time.Hour), event.Query{From: &from, To: &to}, 8},
		{workspace, noon, event.Query{From: &from, To: &to}, 2},
		{workspace, later(time.Hour), event.Query{From: &to, To: &from}, 0},
		{workspace, later(time.Hour), event.Query{EntityID: "b", From: &from, To: &to}, 2},
		{"nobody", later(time.Hour), event.Query{}, 0},
	} {
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, tt.until); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}

func testCancelled(t *testing.T, s event.Store) {
	fill(t, s, workspace, plain("a", noon))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, createErr := s.Create(ctx, workspace, plain("b", noon))
	_, getErr := s.Get(ctx, workspace, "a")
	_, listErr := s.List(ctx, workspace, event.Query{Limit: 1})
	_, countErr := s.Count(ctx, workspace, event.Query{}, noon)
	for call, err := range map[string]error{"create": createErr, "get": getErr, "list": listErr, "count": countErr} {
		var failure *record.Error
		if !errors.As(err, &failure) || failure.Kind != record.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want kind Unavailable because of %v", call, err, context.Canceled)
		}
	}
	if got := ids(list(t, s, workspace, event.Query{Limit: 10}).Events); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the list has %v", got)
	}
}
