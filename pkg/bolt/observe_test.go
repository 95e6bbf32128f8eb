package bolt_test

import (
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The numbers of records follow whatever changes them, and are in the file.
func TestRecordsAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	open := func() *bolt.Stores {
		t.Helper()
		s, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: func() time.Time { return now }}, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	defer func() { s.Close() }() //nolint:errcheck // a test
	create := func(workspace, id string) error {
		_, _, err := entity.Create(t.Context(), s.Entities, workspace, entity.Draft{ID: id})
		return err
	}
	happen := func(id string, keep time.Duration) error {
		_, _, err := event.Create(t.Context(), s.Events, "a", event.Draft{ID: id, Name: "n", EntityID: "ada", KeepFor: keep})
		return err
	}
	for _, step := range []struct {
		name             string
		do               func() error
		entities, events int64
	}{
		{"nothing", func() error { return nil }, 0, 0},
		{"create", func() error { return create("a", "ada") }, 1, 0},
		{"create again", func() error { return create("a", "ada") }, 1, 0},
		{"another workspace", func() error { return create("b", "ada") }, 2, 0},
		{"update", func() error {
			_, err := entity.Update(t.Context(), s.Entities, "a", "ada", record.Attributes(`{"n":1}`), nil)
			return err
		}, 2, 0},
		{"event", func() error { return happen("x", 0) }, 2, 1},
		{"event again", func() error { return happen("x", 0) }, 2, 1},
		{"event that expires", func() error { return happen("y", time.Hour) }, 2, 2},
		{"delete", func() error { return entity.Delete(t.Context(), s.Entities, "b", "ada", nil) }, 1, 2},
		{"create after a deletion", func() error { return create("b", "ada") }, 2, 2},
		{"erase", func() error { _, err := s.Erasures.Request(t.Context(), "a", "ada"); return err }, 1, 2},
		{"erase events", func() error {
			_, err := s.Events.Erase(t.Context(), "a", event.Erasure{EntityID: "ada", Until: record.TimeOf(now.Add(time.Hour)), Limit: 1})
			return err
		}, 1, 1},
		{"expire", func() error { now = now.Add(time.Hour + time.Second); return happen("z", 0) }, 1, 1},
		{"expired tombstone", func() error { now = now.Add(31 * 24 * time.Hour); return create("a", "grace") }, 2, 1},
		{"open again", func() error { err := s.Close(); s = open(); return err }, 2, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if entities, events, err := s.Records(); entities != step.entities || events != step.events || err != nil {
			t.Errorf("%s: %d entities, %d events, error %v; want %d, %d", step.name, entities, events, err, step.entities, step.events)
		}
	}
}
