package boltstore_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/event/boltstore"
	"sluice/pkg/record"
)

// This build must be able to read a database in the layout of earlier builds.
func TestADatabaseOfAnEarlierBuildShowsItsEvents(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "test.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) //nolint:errcheck // a temporary file
	const (
		value    = `{"id":"evt-1","name":"signed_up","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{},"created_at":"2026-01-02T15:04:06.000Z"}`
		position = "2026-01-02T15:04:05.000Z#evt-1"
	)
	put := func(key, value string, path ...string) {
		t.Helper()
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
			for _, name := range path[1:] {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(name))
				}
			}
			if err != nil {
				return err
			}
			return b.Put([]byte(key), []byte(value))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("evt-1", value, "events", "default", "by_id")
	put(position, "evt-1", "events", "default", "by_position")
	put(position, "evt-1", "events_by_entity", "default", "ada")

	s, err := boltstore.New(db)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(t.Context(), "default", "evt-1"); err != nil || e.Name != "signed_up" {
		t.Errorf("Get: %+v, %v", e, err)
	}
	for _, q := range []event.Query{{Limit: 10}, {Limit: 10, EntityID: "ada"}} {
		if page, err := s.List(t.Context(), "default", q); err != nil || len(page.Events) != 1 || page.Events[0].ID != "evt-1" {
			t.Errorf("List %+v: %+v, %v", q, page, err)
		}
	}
	// Opening the database builds the index by creation time.
	if page, err := s.Arrivals(t.Context(), "default", record.SyncQuery{Limit: 10}); err != nil || len(page.Events) != 1 || page.Events[0].ID != "evt-1" {
		t.Errorf("Arrivals: %+v, %v", page, err)
	}
}
