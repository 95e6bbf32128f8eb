package bolt_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

// Whatever the clock does, an event that is stored after an erasure has a later stamp, the job and
// the tombstone agree, and a repetition has a later time.
func TestAnErasureIsOneTransactionWithATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s, err := bolt.Open(t.TempDir(), bolt.Config{Clock: entity.Clock{Now: clock}, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a test
	var before record.Time
	for i, step := range []time.Duration{0, 0, time.Second, -time.Hour, 0, time.Hour} {
		mu.Lock()
		now = now.Add(step)
		mu.Unlock()
		if _, _, err := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: "ada"}); err != nil {
			t.Fatal(err)
		}
		old, _, err := event.Create(t.Context(), s.Events, "default", event.Draft{ID: fmt.Sprint("old-", i), Name: "n", EntityID: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.Erasures.Request(t.Context(), "default", "ada")
		if err != nil {
			t.Fatal(err)
		}
		later, _, err := event.Create(t.Context(), s.Events, "default", event.Draft{ID: fmt.Sprint("new-", i), Name: "n", EntityID: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := s.ErasureJobs.Get(t.Context(), "default", "ada")
		changes, eachErr := s.Entities.GetEach(t.Context(), "default", []string{"ada"})
		ada := changes["ada"]
		if err != nil || eachErr != nil || stored.Until != j.Until || ada.ErasedAt != j.Until || ada.Live() {
			t.Errorf("%d: the job is %+v, the change %+v; errors %v, %v", i, stored, ada, err, eachErr)
		}
		if old.CreatedAt.Compare(j.Until) > 0 || later.CreatedAt.Compare(j.Until) <= 0 || j.Until.Compare(before) <= 0 {
			t.Errorf("%d: erased at %s, after %s; the events were created at %s and %s", i, j.Until, before, old.CreatedAt, later.CreatedAt)
		}
		before = j.Until
		if got, err := erasurejob.Get(t.Context(), s.ErasureJobs, "default", "ada", clock()); err != nil || got.ID != "ada" {
			t.Errorf("%+v, error %v", got, err)
		}
	}
}

func TestErasures(t *testing.T) {
	t.Parallel()
	storetest.Erasures(t, func(t *testing.T, now func() time.Time) storetest.ErasureStores {
		s, err := bolt.Open(t.TempDir(), bolt.Config{Clock: entity.Clock{Now: now}, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() }) //nolint:errcheck // a temporary file
		return storetest.ErasureStores{Entities: s.Entities, Events: s.Events, Jobs: s.ErasureJobs, Requests: s.Erasures}
	})
}
