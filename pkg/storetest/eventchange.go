package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// testEventChanges lists events that were not created in the order in which they occurred.
func testEventChanges(t *testing.T, s eventStore) {
	var all []event.Event
	for i := range 30 {
		e := plainEvent(fmt.Sprintf("%02d", 29-i), laterEvent(-time.Duration(i)*time.Hour))
		e.CreatedAt = laterEvent(time.Duration(i/4) * time.Millisecond)
		all = append(all, e)
	}
	eventKind.fill(t, s, workspace, all...)
	eventKind.fillPlain(t, s, "other", "00")
	for since := -1; since <= 9; since += 2 {
		from := laterEvent(time.Duration(since) * time.Millisecond)
		want := slices.DeleteFunc(slices.Clone(all), func(e event.Event) bool { return e.CreatedAt.Compare(from) < 0 })
		for _, descending := range []bool{false, true} {
			changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: from, Descending: descending}).check(t, want, 7)
		}
	}
	for _, descending := range []bool{false, true} {
		changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Descending: descending}).check(t, all, 1, 7, 200)
	}
	changesOf(t.Context(), s.Changes, "nobody", record.SyncQuery{}).check(t, nil, 10)
}

func testFilteredEvents(t *testing.T, s eventStore) {
	var want []event.Change
	for i := range 9 {
		e := plainEvent(fmt.Sprint(i), laterEvent(0))
		e.EntityID, e.CreatedAt = fmt.Sprint("entity-", i%3), laterEvent(time.Duration(i)*time.Millisecond)
		eventKind.fill(t, s, workspace, e)
		c := event.Change{Event: e}
		if e.EntityID != "entity-1" {
			c = event.Change{Event: event.Event{ID: e.ID, CreatedAt: e.CreatedAt}, Reason: record.Filtered}
		}
		want = append(want, c)
	}
	list := func(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[event.Change], error) {
		return event.ListChanges(ctx, s.Store, workspace, event.ChangeQuery{SyncQuery: q, EntityID: "entity-1"})
	}
	changesOf(t.Context(), list, workspace, record.SyncQuery{}).check(t, want, 1, 4, 200)
}
