package boltstore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/event/boltstore"
	"sluice/pkg/event/storetest"
	"sluice/pkg/record"
)

func openDB(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func open(t *testing.T) event.Store {
	s, err := boltstore.New(openDB(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestWalks(t *testing.T) {
	t.Parallel()
	storetest.Walk(t, open(t), false)
}

// Creating an event removes expired events.
func TestExpiredEventsAreSwept(t *testing.T) {
	t.Parallel()
	s, noon := open(t), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	create := func(id string, at time.Time) {
		t.Helper()
		e := event.New{Event: event.Event{ID: id, Name: "n", Attributes: record.Attributes("{}"), ExpiresAt: event.Retention(at, 1)}}
		if _, created, err := event.Create(t.Context(), s, "default", e, at); !created || err != nil {
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
	if err != nil || len(page.Events) != 3 {
		t.Errorf("%d events are left, error %v; want 3", len(page.Events), err)
	}
}

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := boltstore.New(nil); err == nil {
		t.Error("no error")
	}
}
