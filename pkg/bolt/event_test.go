package bolt_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/bolt"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openEvents(t *testing.T) func(now func() time.Time) (event.Store, error) {
	db := openDB(t)
	return func(now func() time.Time) (event.Store, error) { return bolt.NewEvents(db, now) }
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
	s, err := bolt.NewEvents(openDB(t), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	create := func(id string, at time.Time) {
		t.Helper()
		now = at
		d := event.Draft{ID: id, Name: "n", KeepFor: 24 * time.Hour}
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
	now = noon // to list also what expires later
	page, err := s.List(t.Context(), "default", event.Query{Limit: 100})
	if err != nil || len(page.Records) != 3 {
		t.Errorf("%d events are left, error %v; want 3", len(page.Records), err)
	}
}

// The file cannot grow during a read transaction, so a long one would hold up all requests.
func TestACountIsSeveralShortTransactions(t *testing.T) {
	t.Parallel()
	const n = 11_000
	db := openDB(t)
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s, err := bolt.NewEvents(db, func() time.Time { return at })
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
}
