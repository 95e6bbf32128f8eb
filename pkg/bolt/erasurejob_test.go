package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/erasurejob"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openErasureJobs(t *testing.T) *bolt.ErasureJobs {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "test.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) //nolint:errcheck // a temporary file
	s, err := bolt.NewErasureJobs(db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestErasureJobs(t *testing.T) {
	storetest.ErasureJobs(t, func(t *testing.T) storetest.ErasureJobStore { return openErasureJobs(t) })
}

// end stores a job that has ended.
func end(t *testing.T, s *bolt.ErasureJobs, id string, at time.Time) {
	t.Helper()
	j := erasurejob.Job{ID: id, Workspace: "default", CreatedAt: record.TimeOf(at), Revision: 1}.Finish(erasurejob.Succeeded, at)
	if replaced, err := s.Replace(t.Context(), j); !replaced || err != nil {
		t.Fatalf("%v, error %v", replaced, err)
	}
}

func TestExpiredJobsAreRemoved(t *testing.T) {
	s, noon := openErasureJobs(t), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i := range 15 {
		end(t, s, fmt.Sprint("old-", i), noon)
	}
	end(t, s, "younger", noon.Add(time.Second))
	for i := range 2 {
		end(t, s, fmt.Sprint("new-", i), noon.Add(erasurejob.HistoryAge+time.Millisecond))
	}
	for i := range 15 {
		if _, err := s.Get(t.Context(), "default", fmt.Sprint("old-", i)); record.KindOf(err) != record.NotFound {
			t.Errorf("old-%d: error %v", i, err)
		}
	}
	for _, id := range []string{"younger", "new-0", "new-1"} {
		if _, err := s.Get(t.Context(), "default", id); err != nil {
			t.Error(err)
		}
	}
}
