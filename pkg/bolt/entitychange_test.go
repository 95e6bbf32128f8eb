package bolt_test

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// A database of an earlier build has entities but no index of changes.
func TestADatabaseOfAnEarlierBuildShowsItsChanges(t *testing.T) {
	t.Parallel()
	const count, workspaces = 7_000, 3
	db := openDBEntity(t)
	err := db.Update(func(tx *bbolt.Tx) error {
		top, err := tx.CreateBucketIfNotExists([]byte("entities"))
		for w := 0; w < workspaces && err == nil; w++ {
			var b *bbolt.Bucket
			if b, err = top.CreateBucketIfNotExists(fmt.Appendf(nil, "workspace-%d", w)); err != nil {
				break
			}
			for i := 0; i < count && err == nil; i++ {
				at := time.Date(2026, 1, 2, 0, 0, count-i, 0, time.UTC).Format(time.RFC3339)
				err = b.Put(fmt.Appendf(nil, "%05d", i), fmt.Appendf(nil, `{"id":"%05d","type":"t","attributes":{},"created_at":%q,"updated_at":%[2]q}`, i, at))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, the index exists
		s := openIn(t, db)
		for w := range workspaces {
			workspace := fmt.Sprintf("workspace-%d", w)
			changes, more, err := s.Changes(t.Context(), workspace, record.SyncQuery{Limit: count})
			if err != nil || more || len(changes) != count || changes[0].ID != fmt.Sprintf("%05d", count-1) {
				t.Fatalf("%s has %d changes, more %v, error %v", workspace, len(changes), more, err)
			}
		}
	}
}

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
		changes, _, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 200})
		if err != nil || len(changes) != want {
			t.Errorf("after %d deletions %d tombstones are left, error %v; want %d", i+1, len(changes), err, want)
		}
	}
}

// An earlier build deletes an entity without changing the index of changes.
func TestChangesSkipEntitiesDeletedByAnEarlierBuild(t *testing.T) {
	t.Parallel()
	db := openDBEntity(t)
	s := openIn(t, db)
	for _, id := range []string{"a", "b", "c"} {
		e := entity.Entity{ID: id, Type: "t", Attributes: record.Attributes(`{}`)}
		if _, _, err := entity.Create(t.Context(), s, "default", e, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket([]byte("entities_by_type")).Bucket([]byte("default")).Bucket([]byte("t")).Delete([]byte("b")); err != nil {
			return err
		}
		return tx.Bucket([]byte("entities")).Bucket([]byte("default")).Delete([]byte("b"))
	})
	if err != nil {
		t.Fatal(err)
	}
	changes, more, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 2})
	if err != nil || more || len(changes) != 2 || changes[0].ID != "a" || changes[1].ID != "c" {
		t.Errorf("%+v, more %v, error %v; want a and c", changes, more, err)
	}
}
