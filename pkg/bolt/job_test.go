package bolt_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openJobs(t *testing.T, kind job.Kind) *bolt.Jobs {
	t.Helper()
	s, err := bolt.NewJobs(openDB(t), kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJobs(t *testing.T) {
	storetest.Jobs(t, func(t *testing.T, kind job.Kind) job.Backlog { return openJobs(t, kind) })
}

func TestExpiredJobsAreRemoved(t *testing.T) {
	kind := job.Kind{Name: "report", Keep: 30 * 24 * time.Hour}
	s, noon := openJobs(t, kind), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	end := func(id string, at time.Time) {
		t.Helper()
		j := kind.Finish(job.Job{ID: id, Workspace: "default", CreatedAt: record.TimeOf(at), Revision: 1}, job.Succeeded, at)
		if _, put, err := s.Put(t.Context(), j); !put || err != nil {
			t.Fatalf("%v, error %v", put, err)
		}
	}
	for i := range 15 {
		end(fmt.Sprint("old-", i), noon)
	}
	end("younger", noon.Add(time.Second))
	for i := range 2 {
		end(fmt.Sprint("new-", i), noon.Add(kind.Keep+time.Millisecond))
	}
	for i := range 15 {
		if _, err := s.Get(t.Context(), "default", fmt.Sprint("old-", i)); record.CodeOf(err) != record.NotFound {
			t.Errorf("old-%d: error %v", i, err)
		}
	}
	page, err := s.List(t.Context(), "default", "", 20)
	if len(page.Records) != 3 || page.Next != "" || err != nil {
		t.Fatalf("%d jobs are left, next %q, error %v", len(page.Records), page.Next, err)
	}
	for i, id := range []string{"new-1", "new-0", "younger"} {
		if page.Records[i].ID != id {
			t.Errorf("job %d is %s, want %s", i, page.Records[i].ID, id)
		}
	}
}

func TestAJobCoversWhatExistsEvenIfTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s, err := bolt.Open(t.TempDir(), bolt.Config{Clock: entity.Clock{Now: func() time.Time { return now }}, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a temporary directory
	ada, _, err := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := job.Create(t.Context(), s.ExportJobs, job.Job{Workspace: "default", ID: "1"}, now.Add(-time.Hour))
	if err != nil || j.Until.Compare(ada.CreatedAt) < 0 || j.CreatedAt != j.Until {
		t.Errorf("the job of %s covers what was created until %s, and ada was created at %s; error %v", j.CreatedAt, j.Until, ada.CreatedAt, err)
	}
}
