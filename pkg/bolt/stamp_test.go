package bolt_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Entities and events of all workspaces share the time of the store, which is also kept when the
// server restarts. The newest stamp in the file is settled.
func TestStampsAreInTheOrderOfTheWritesWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	dir, now := t.TempDir(), noon
	newest := record.TimeOf(noon)
	for i, step := range []time.Duration{0, time.Hour, -2 * time.Hour, 0, time.Millisecond, 61 * time.Minute, time.Second, -365 * 24 * time.Hour} {
		now = now.Add(step)
		s, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: func() time.Time { return now }}, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if clock := record.TimeOf(now); newest.Compare(clock) < 0 {
			newest = clock
		}
		for n, workspace := range []string{"default", "other"} {
			e, _, err := entity.Create(t.Context(), s.Entities, workspace, entity.Draft{ID: fmt.Sprint(i)})
			v, _, err2 := event.Create(t.Context(), s.Events, workspace, event.Draft{ID: fmt.Sprint(i), Name: "n"})
			if err != nil || err2 != nil || e.UpdatedAt != newest || v.CreatedAt != newest {
				t.Errorf("step %d, workspace %d: stamps %s and %s, errors %v and %v; want %s", i, n, e.UpdatedAt, v.CreatedAt, err, err2, newest)
			}
			changed, err := entity.Update(t.Context(), s.Entities, workspace, "0", record.Attributes(fmt.Sprintf(`{"n":%d}`, i)), nil)
			if err != nil || changed.UpdatedAt != newest || changed.Revision != int64(i+2) {
				t.Errorf("step %d, workspace %d: %+v, error %v; want the stamp %s", i, n, changed, err, newest)
			}
		}
		entities, err := s.Entities.Changes(t.Context(), "default", record.SyncQuery{Limit: 1})
		events, err2 := s.Events.Changes(t.Context(), "none", record.SyncQuery{Limit: 1})
		if err != nil || err2 != nil || entities.Settled != newest || events.Settled != newest {
			t.Errorf("step %d: settled until %s and %s, errors %v and %v; want %s", i, entities.Settled, events.Settled, err, err2, newest)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
