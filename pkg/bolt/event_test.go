package bolt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/bolt"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

type pastEvents struct {
	event.Store
	past
}

func (s pastEvents) Create(ctx context.Context, workspace string, d event.Draft) (event.Event, bool, error) {
	defer s.forget()()
	return s.Store.Create(ctx, workspace, d)
}

func openEvents(t *testing.T) func(now func() time.Time) (event.Store, error) {
	p := newPast(t)
	return func(now func() time.Time) (event.Store, error) {
		s, err := bolt.NewEvents(p.db, now, nil)
		return pastEvents{s, p}, err
	}
}

func TestEvents(t *testing.T) { storetest.Events(t, openEvents) }

func TestWalksOfEvents(t *testing.T) {
	t.Parallel()
	storetest.WalkEvents(t, openEvents, false)
}

func TestExpiredEventsAreSwept(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := noon
	db := openDB(t)
	s, err := bolt.NewEvents(db, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	attributes := record.Attributes("{}")
	create := func(id string, at time.Time) {
		t.Helper()
		now = at
		d := event.Draft{ID: id, Name: "n", Attributes: attributes, KeepFor: 24 * time.Hour}
		if _, created, err := event.Create(t.Context(), s, "default", d); !created || err != nil {
			t.Fatalf("%v, error %v", created, err)
		}
	}
	for i := range 15 {
		create(fmt.Sprint("old-", i), noon)
	}
	create("younger", noon.Add(time.Second))
	for i := range 2 {
		create(fmt.Sprint("new-", i), noon.AddDate(0, 0, 1).Add(time.Millisecond))
	}
	wantLeft := func(want int) {
		t.Helper()
		now = noon // to list also what expires later
		page, err := s.List(t.Context(), "default", event.Query{Limit: 100})
		if err != nil || len(page.Records) != want {
			t.Errorf("%d events are left, error %v; want %d", len(page.Records), err, want)
		}
	}
	wantLeft(3)
	attributes = record.Attributes(`{"text":"` + strings.Repeat("x", 50_000) + `"}`)
	for i := range 8 {
		create(fmt.Sprint("large-", i), noon.AddDate(0, 0, 1).Add(time.Second))
	}
	create("newest", noon.AddDate(0, 0, 2).Add(2*time.Second)) // removes the first three and one of the large events
	wantLeft(7 + 1)
}

// The file cannot grow during a read transaction, so a long one would hold up all requests.
func TestACountIsSeveralShortTransactions(t *testing.T) {
	t.Parallel()
	const n = 11_000
	db := openDB(t)
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s, err := bolt.NewEvents(db, func() time.Time { return at }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var writers errgroup.Group
	writers.SetLimit(1_000) // concurrent writes share a transaction
	for i := range n {
		writers.Go(func() error {
			_, _, err := event.Create(t.Context(), s, "w", event.Draft{ID: fmt.Sprint(i), Name: "n", EntityID: "e"})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, q := range []event.Query{{}, {Ascending: true}, {EntityID: "e"}} {
		before := db.Stats().TxN
		got, err := s.Count(t.Context(), "w", q, record.TimeOf(at))
		if reads := db.Stats().TxN - before; err != nil || got != n || reads != 3 {
			t.Errorf("%+v: %d events in %d transactions, %v; want %d in 3", q, got, reads, err, n)
		}
	}
	for i := range 30 { // 7.5 MB
		d := event.Draft{ID: fmt.Sprint(i), Name: "n", Attributes: record.Attributes(`{"text":"` + strings.Repeat("x", 250_000) + `"}`)}
		if _, _, err := event.Create(t.Context(), s, "large", d); err != nil {
			t.Fatal(err)
		}
	}
	before := db.Stats().TxN
	if got, err := s.Count(t.Context(), "large", event.Query{}, record.TimeOf(at)); err != nil || got != 30 || db.Stats().TxN-before < 3 {
		t.Errorf("%d large events in %d transactions, %v; want 30 in at least 3", got, db.Stats().TxN-before, err)
	}
}
