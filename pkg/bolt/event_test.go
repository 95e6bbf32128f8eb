package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/event"
	"sluice/pkg/storetest"
)

func openDBEvent(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openEvents(t *testing.T) func(now func() time.Time) (event.Store, error) {
	db := openDBEvent(t)
	return func(now func() time.Time) (event.Store, error) { return bolt.NewEvents(db, now) }
}

func TestEvents(t *testing.T) { storetest.Events(t, openEvents) }

func TestWalksOfEvents(t *testing.T) {
	t.Parallel()
	storetest.WalkEvents(t, openEvents, false)
}

// Creating an event removes expired events.
func TestExpiredEventsAreSwept(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := noon
	s, err := bolt.NewEvents(openDBEvent(t), func() time.Time { return now })
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
	page, err := s.List(t.Context(), "default", event.Query{Limit: 100})
	if err != nil || len(page.Records) != 3 {
		t.Errorf("%d events are left, error %v; want 3", len(page.Records), err)
	}
}
