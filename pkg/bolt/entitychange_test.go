package bolt_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func TestDeletionsSweepExpiredTombstones(t *testing.T) {
	t.Parallel()
	s := openEntities(t)
	begin := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	remove := func(id string, at time.Time) {
		t.Helper()
		e := entity.Entity{ID: id, Type: "t", Attributes: record.Attributes(`{}`)}
		if _, _, err := entity.Create(t.Context(), s, "default", e, begin); err != nil {
			t.Fatal(err)
		}
		if err := entity.Delete(t.Context(), s, "default", id, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		remove(fmt.Sprintf("%02d", i), begin.Add(time.Duration(i)*time.Hour))
	}
	// 21 of the tombstones expire before the later deletions. Each of these deletions removes
	// up to 10 expired tombstones and adds a new one.
	later := begin.Add(entity.TombstoneAge + 20*time.Hour + time.Minute)
	for i, want := range []int{21, 12, 12} {
		remove(fmt.Sprintf("later-%d", i), later)
		page, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 200})
		if err != nil || len(page.Records) != want {
			t.Errorf("after %d deletions %d tombstones are left, error %v; want %d", i+1, len(page.Records), err, want)
		}
	}
}
