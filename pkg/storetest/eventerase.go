package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// eraseAll erases an entity's events page by page, and returns how many there were.
func eraseAll(t *testing.T, s eventStore, q event.Erasure) (n int64) {
	t.Helper()
	for {
		erased, err := s.Erase(t.Context(), workspace, q)
		if err != nil {
			t.Fatal(err)
		}
		if n += erased.Events; erased.Next == "" {
			return n
		}
		if erased.Next == q.Cursor {
			t.Fatalf("the page at %q leads to itself", q.Cursor)
		}
		q.Cursor = erased.Next
	}
}

// testEventErase erases the events of one of two entities. Some events belong to neither, and
// some were created after q.Until. Events were not created in the order in which they occurred.
func testEventErase(t *testing.T, s eventStore) {
	var old, others []event.Event
	for i := range 40 {
		e := plainEvent(fmt.Sprintf("%02d", i), laterEvent(-time.Duration(i/3)*time.Hour))
		e.CreatedAt = laterEvent(time.Duration(i%5) * time.Millisecond) // three of five events are created at or before q.Until
		switch i % 8 {
		case 6:
			e.EntityID = ""
		case 7:
			e.EntityID = "u-10" // has the prefix u-1
		}
		if e.EntityID == "u-1" && i%5 <= 2 {
			old = append(old, e)
		} else {
			others = append(others, e)
		}
		eventKind.fill(t, s, workspace, e)
	}
	eventKind.fillPlain(t, s, "other", "00")
	q := event.Erasure{EntityID: "u-1", Until: laterEvent(2 * time.Millisecond), Limit: 7}
	if n := eraseAll(t, s, q); n != int64(len(old)) {
		t.Errorf("%d events were erased, want %d", n, len(old))
	}
	if n := eraseAll(t, s, q); n != 0 {
		t.Errorf("%d events were erased again", n)
	}
	for _, e := range old {
		eventKind.wantNotFound(t, s, workspace, e.ID)
	}
	eventKind.want(t, s, workspace, others...)
	eventKind.want(t, s, "other", plainEvent("00", eventNoon))
	ofEntity := slices.DeleteFunc(slices.Clone(others), func(e event.Event) bool { return e.EntityID != "u-1" })
	listEvents(t.Context(), s, workspace, event.Query{EntityID: "u-1"}).check(t, ofEntity, 3, 200)
	eventKind.fill(t, s, workspace, old[0]) // stored as a new event

	if n := eraseAll(t, s, event.Erasure{EntityID: "u-1", Until: laterEvent(time.Hour), Limit: 200}); n != int64(len(ofEntity))+1 {
		t.Errorf("%d events were erased, want all %d", n, len(ofEntity)+1)
	}
	listEvents(t.Context(), s, workspace, event.Query{EntityID: "u-1"}).check(t, nil, 10)
	for _, q := range []event.Erasure{{EntityID: "nobody", Until: last, Limit: 10}, {EntityID: "u-1", Until: last, Limit: 10}} {
		if n := eraseAll(t, s, q); n != 0 {
			t.Errorf("%d events of %s were erased", n, q.EntityID)
		}
	}
}

// testExpired creates the same event again before, at and after the time at which it expires.
func testExpired(t *testing.T, s eventStore) {
	e := plainEvent("a", eventNoon)
	e.CreatedAt, e.ExpiresAt = eventNoon, laterEvent(time.Minute)
	eventKind.fill(t, s, workspace, e)
	eventKind.want(t, s, workspace, e)
	changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{}).check(t, []event.Event{e}, 10)
	again := e
	again.Name, again.EntityID, again.OccurredAt = "other", "u-2", laterEvent(time.Hour)
	for i, at := range []time.Duration{0, time.Minute - time.Millisecond, time.Minute, 2 * time.Hour} {
		again.CreatedAt, again.ExpiresAt = laterEvent(at), laterEvent(at+time.Hour)
		want := e
		if i >= 2 {
			want = again
		}
		stored, created, err := s.create(t.Context(), workspace, again)
		if created != (i >= 2) || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("again after %s: %v, error %v\n got %+v\nwant %+v", at, created, err, stored, want)
		}
		eventKind.want(t, s, workspace, want)
		listEvents(t.Context(), s, workspace, event.Query{EntityID: want.EntityID}).check(t, []event.Event{want}, 10)
	}
	listEvents(t.Context(), s, workspace, event.Query{EntityID: e.EntityID}).check(t, nil, 10)
	if n := eraseAll(t, s, event.Erasure{EntityID: "u-2", Until: last, Limit: 10}); n != 1 {
		t.Errorf("%d expired events were erased, want 1", n)
	}
	eventKind.want(t, s, workspace)
}

// testPagesOfExpired lists three events, before, between and after 3.6 MB of expired ones.
func testPagesOfExpired(t *testing.T, s eventStore) {
	const expired, size = 240, 15_000
	attributes := record.Attributes(`{"text":"` + strings.Repeat("x", size) + `"}`)
	var live, all []event.Event
	for i := range expired + 3 {
		e := plainEvent(fmt.Sprintf("%03d", i), laterEvent(time.Duration(i-expired-3)*time.Second))
		e.CreatedAt = e.OccurredAt
		switch i {
		case 0, expired / 2, expired + 2:
			live = append(live, e)
		default:
			e.Attributes, e.ExpiresAt = attributes, laterEvent(0)
		}
		all = append(all, e)
	}
	eventKind.fill(t, s, workspace, all...)
	for name, l := range map[string]recordList[event.Event]{
		"newest first": listEvents(t.Context(), s, workspace, event.Query{}), "oldest first": listEvents(t.Context(), s, workspace, event.Query{Ascending: true}),
		"of an entity": listEvents(t.Context(), s, workspace, event.Query{EntityID: "u-1"}), "changes": changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{}),
	} {
		for _, limit := range []int{1, 50} {
			var found []string
			pages := 0
			for cursor := record.Cursor(""); pages == 0 || cursor != ""; pages++ {
				page, err := l.page(cursor, limit)
				if err != nil || page.Next != "" && page.Next == cursor {
					t.Fatalf("the page at %q leads to %q, error %v", cursor, page.Next, err)
				}
				found, cursor = append(found, eventIDs(page.Records)...), page.Next
			}
			if slices.Sort(found); !slices.Equal(found, eventIDs(live)) {
				t.Errorf("%s by %d: %q, want %q", name, limit, found, eventIDs(live))
			}
			t.Logf("%s by %d: %d pages", name, limit, pages)
			if pages < 3 || pages > 25 { // several megabytes on a page, or much less than one
				t.Errorf("%s by %d: %d pages", name, limit, pages)
			}
		}
	}
}
