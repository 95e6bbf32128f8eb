package storetest

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/erasurejob"
	"sluice/pkg/record"
)

// ErasureJobStore is an erasurejob.Store that also lists its unfinished jobs.
type ErasureJobStore interface {
	erasurejob.Store
	erasurejob.Backlog
}

var erasureJobNoon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ErasureJobs checks that the stores returned by open fulfill the contract of erasurejob.Store.
// Each call of open must return a store without jobs.
func ErasureJobs(t *testing.T, open func(t *testing.T) ErasureJobStore) {
	runAll(t, open, []test[ErasureJobStore]{
		{Name: "a job is read back as it was stored", Run: testWhole},
		{Name: "only the next revision replaces a job", Run: testErasureJobRevisions},
		{Name: "concurrent requests create one job with the latest bound", Run: testConcurrentRequests},
		{Name: "a request extends an unfinished job and replaces one that has ended", Run: testRequest},
		{Name: "Unfinished returns the jobs that have not ended", Run: testErasureJobUnfinished},
	})
}

// request calls erasurejob.Request at the given time. The job erases events that were created
// at or before this time.
func request(t *testing.T, s ErasureJobStore, workspace, id string, until time.Time) erasurejob.Job {
	t.Helper()
	j, err := erasurejob.Request(t.Context(), s, workspace, id, record.TimeOf(until), until)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// replaceErasureJob stores j as the next revision.
func replaceErasureJob(t *testing.T, s ErasureJobStore, j erasurejob.Job) erasurejob.Job {
	t.Helper()
	j.Revision++
	if replaced, err := s.Replace(t.Context(), j); !replaced || err != nil {
		t.Fatalf("replace: %v, error %v", replaced, err)
	}
	return j
}

// wantErasureJob checks that the store contains j.
func wantErasureJob(t *testing.T, s ErasureJobStore, j erasurejob.Job) {
	t.Helper()
	if got, err := s.Get(t.Context(), j.Workspace, j.ID); err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("error %v\n got %+v\nwant %+v", err, got, j)
	}
}

func testWhole(t *testing.T, s ErasureJobStore) {
	at, reason := record.TimeOf(erasureJobNoon), "why"
	j := erasurejob.Job{
		ID: "ada", Status: erasurejob.Running, EventsErased: 1 << 40, CreatedAt: at, StartedAt: &at, FinishedAt: &at, Error: &reason,
		Workspace: workspace, Until: at.Next(erasureJobNoon),
		Progress: erasurejob.Progress{Run: "r", Tries: 3, After: &record.Position{At: at, ID: "e"}},
	}
	j = replaceErasureJob(t, s, j)
	wantErasureJob(t, s, j)
	j.ID = strings.Repeat("x", record.MaxIDLength)
	j.Revision = 0
	j = replaceErasureJob(t, s, j.Finish(erasurejob.Failed, erasureJobNoon))
	wantErasureJob(t, s, j)
	for _, key := range []erasurejob.Key{{Workspace: workspace, ID: "bob"}, {Workspace: "other", ID: "ada"}} {
		if got, err := s.Get(t.Context(), key.Workspace, key.ID); record.KindOf(err) != record.NotFound {
			t.Errorf("%v: %+v, error %v", key, got, err)
		}
	}
}

func testErasureJobRevisions(t *testing.T, s ErasureJobStore) {
	j := request(t, s, workspace, "ada", erasureJobNoon)
	for _, revision := range []int64{1, 3, 4} {
		next := j
		next.Revision, next.Status = revision, erasurejob.Running
		if replaced, err := s.Replace(t.Context(), next); replaced || err != nil {
			t.Errorf("revision %d over 1: %v, error %v", revision, replaced, err)
		}
	}
	absent := j
	absent.ID, absent.Revision = "bob", 2
	if replaced, err := s.Replace(t.Context(), absent); replaced || err != nil {
		t.Errorf("revision 2 of a job that does not exist: %v, error %v", replaced, err)
	}
	wantErasureJob(t, s, j)
	j.Status = erasurejob.Running
	wantErasureJob(t, s, replaceErasureJob(t, s, j))
}

func testConcurrentRequests(t *testing.T, s ErasureJobStore) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			until := erasureJobNoon.Add(time.Duration(i) * time.Millisecond)
			if _, err := erasurejob.Request(t.Context(), s, workspace, "ada", record.TimeOf(until), until); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	j, err := s.Get(t.Context(), workspace, "ada")
	if err != nil || j.Status != erasurejob.Queued || j.Until != record.TimeOf(erasureJobNoon.Add(7*time.Millisecond)) {
		t.Errorf("%+v, error %v; want it queued with the latest bound", j, err)
	}
}

func testRequest(t *testing.T, s ErasureJobStore) {
	j := request(t, s, workspace, "ada", erasureJobNoon)
	at := record.TimeOf(erasureJobNoon)
	if want := (erasurejob.Job{ID: "ada", Workspace: workspace, Status: erasurejob.Queued, CreatedAt: at, Until: at, Revision: 1}); !reflect.DeepEqual(j, want) {
		t.Errorf("got %+v, want %+v", j, want)
	}
	j.Status, j.StartedAt, j.EventsErased = erasurejob.Running, &at, 5
	j.Progress = erasurejob.Progress{Run: "r", Tries: 1, After: &record.Position{ID: "e"}}
	j = replaceErasureJob(t, s, j)

	extended := j
	extended.Status, extended.Progress, extended.Revision = erasurejob.Queued, erasurejob.Progress{}, 3
	extended.Until = record.TimeOf(erasureJobNoon.Add(time.Minute))
	if got := request(t, s, workspace, "ada", erasureJobNoon.Add(time.Minute)); !reflect.DeepEqual(got, extended) {
		t.Errorf("a repeat: got %+v, want %+v", got, extended)
	}
	extended.Revision++
	if got := request(t, s, workspace, "ada", erasureJobNoon); !reflect.DeepEqual(got, extended) {
		t.Errorf("a repeat by a clock that is behind: got %+v, want %+v", got, extended)
	}
	wantErasureJob(t, s, extended)

	replaceErasureJob(t, s, extended.Finish(erasurejob.Succeeded, erasureJobNoon.Add(time.Hour)))
	again := request(t, s, workspace, "ada", erasureJobNoon.Add(2*time.Hour))
	later := record.TimeOf(erasureJobNoon.Add(2 * time.Hour))
	if want := (erasurejob.Job{ID: "ada", Workspace: workspace, Status: erasurejob.Queued, CreatedAt: later, Until: later, Revision: 6}); !reflect.DeepEqual(again, want) {
		t.Errorf("after the end: got %+v, want %+v", again, want)
	}
	wantErasureJob(t, s, again)
}

func testErasureJobUnfinished(t *testing.T, s ErasureJobStore) {
	request(t, s, workspace, "queued", erasureJobNoon)
	request(t, s, "other", "queued", erasureJobNoon)
	running := request(t, s, workspace, "running", erasureJobNoon)
	running.Status = erasurejob.Running
	replaceErasureJob(t, s, running)
	for _, status := range []erasurejob.Status{erasurejob.Succeeded, erasurejob.Failed} {
		replaceErasureJob(t, s, request(t, s, workspace, string(status), erasureJobNoon).Finish(status, erasureJobNoon))
	}
	keys, err := s.Unfinished(t.Context())
	slices.SortFunc(keys, func(a, b erasurejob.Key) int { return strings.Compare(a.Workspace+a.ID, b.Workspace+b.ID) })
	want := []erasurejob.Key{{Workspace: workspace, ID: "queued"}, {Workspace: workspace, ID: "running"}, {Workspace: "other", ID: "queued"}}
	slices.SortFunc(want, func(a, b erasurejob.Key) int { return strings.Compare(a.Workspace+a.ID, b.Workspace+b.ID) })
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("%v, error %v; want %v", keys, err, want)
	}
}
