package storetest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

const eventWalkCount = 400

// WalkEvents creates events and lists them in pages of 1, 7, 50 and 200. Each list must be in
// order and contain each event once. If few is true, lists with many pages are skipped, because
// some stores make many calls per page.
func WalkEvents(t *testing.T, open OpenEvents, few bool) {
	s := open.store(t)
	events := manyEvents()
	eventKind.fill(t, s, workspace, events...)
	from, soon, to := laterEvent(20*time.Minute), laterEvent(20*time.Minute+30*time.Second), laterEvent(25*time.Minute)
	for _, tt := range []struct {
		name  string
		query event.Query
		limit []int
		holds func(event.Event) bool
	}{
		{"all", event.Query{}, []int{1, 7, 50, 200}, func(event.Event) bool { return true }},
		{"a range of times", event.Query{From: &from, To: &to}, []int{1, 7, 50, 200}, func(e event.Event) bool {
			return e.OccurredAt.Compare(from) >= 0 && e.OccurredAt.Compare(to) < 0
		}},
		{"half a minute", event.Query{From: &from, To: &soon}, []int{1}, func(e event.Event) bool {
			return e.OccurredAt.Compare(from) >= 0 && e.OccurredAt.Compare(soon) < 0
		}},
		{"an entity", event.Query{EntityID: "entity-3"}, []int{1, 7, 50, 200}, func(e event.Event) bool { return e.EntityID == "entity-3" }},
		{"an entity from a time", event.Query{EntityID: "entity-1", From: &from}, []int{7, 200}, func(e event.Event) bool {
			return e.EntityID == "entity-1" && e.OccurredAt.Compare(from) >= 0
		}},
	} {
		want := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return !tt.holds(e) })
		for _, ascending := range []bool{true, false} {
			for _, limit := range tt.limit {
				if few && limit*50 < len(want) {
					continue
				}
				t.Run(fmt.Sprintf("%s of %d by %d, ascending %v", tt.name, len(want), limit, ascending), func(t *testing.T) {
					q := tt.query
					q.Ascending = ascending
					listEvents(t.Context(), s, workspace, q).check(t, want, limit)
				})
			}
		}
	}
}

// manyEvents returns events of different sizes, in random order. They belong to 25 entities
// and occurred within one hour, some of them at the same time.
func manyEvents() []event.Event {
	events := make([]event.Event, eventWalkCount)
	for i := range events {
		h := fnv.New64a()
		fmt.Fprintf(h, "event %d", i)
		n := h.Sum64()
		e := plainEvent(fmt.Sprintf("evt-%016x", n), laterEvent(time.Duration(n>>8%3_600)*time.Second))
		e.EntityID = fmt.Sprintf("entity-%d", n>>24%25)
		e.Attributes = record.Attributes(`{"note":"` + strings.Repeat("x", int(50+n>>32%200)) + `"}`)
		events[i] = e
	}
	return events
}
