package dynamo

import (
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

func TestOldestQueued(t *testing.T) {
	t.Parallel()
	s := openExportJobs(t, dynamolocal.Client(t))
	created := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	want := func(after string, at time.Time, ok bool) {
		t.Helper()
		got, gotOK, err := s.OldestQueued(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", after, err)
		}
		if gotOK != ok || ok && got != record.TimeOf(at) {
			t.Errorf("%s: got %v, %v, want %v, %v", after, got, gotOK, at, ok)
		}
	}
	want("no jobs", time.Time{}, false)

	// The jobs belong to two workspaces. The oldest job is neither the first by id nor
	// the first that the test creates.
	for _, j := range []struct {
		workspace, id string
		minute        int
	}{{"a", "1", 7}, {"b", "3", 2}, {"b", "2", 5}} {
		job := exportjob.Job{ID: j.id, Workspace: j.workspace, Resource: record.Event, Format: exportjob.NDJSON}
		if _, _, err := exportjob.Create(t.Context(), s, job, exportjob.DefaultQuota, created.Add(time.Duration(j.minute)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	want("three jobs are queued", created.Add(2*time.Minute), true)

	// A job that is running or has ended is not queued.
	oldest, err := s.Get(t.Context(), "b", "3")
	if err != nil {
		t.Fatal(err)
	}
	oldest.Status, oldest.Revision = exportjob.Running, oldest.Revision+1
	if _, replaced, err := s.Replace(t.Context(), oldest); !replaced || err != nil {
		t.Fatalf("replaced %v, error %v", replaced, err)
	}
	want("the oldest job runs", created.Add(5*time.Minute), true)
	for _, key := range [][2]string{{"b", "2"}, {"a", "1"}} {
		if _, err := exportjob.Cancel(t.Context(), s, key[0], key[1], created.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	want("the others are cancelled", time.Time{}, false)
}
