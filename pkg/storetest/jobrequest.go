package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

func request(t *testing.T, s job.Store, until time.Time) job.Job {
	t.Helper()
	j, err := job.Request(t.Context(), s, job.Job{Workspace: workspace, ID: "ada"}, until)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func testJobConcurrentRequests(t *testing.T, s job.Backlog) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			until := jobsCreatedAt.Add(time.Duration(i) * time.Millisecond)
			if _, err := job.Request(t.Context(), s, job.Job{Workspace: workspace, ID: "ada"}, until); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	j, err := s.Get(t.Context(), workspace, "ada")
	if err != nil || j.Status != job.Queued || j.Until.Compare(record.TimeOf(jobsCreatedAt.Add(7*time.Millisecond))) < 0 {
		t.Errorf("%+v, error %v; want it queued with the latest bound", j, err)
	}
	if page, err := s.List(t.Context(), workspace, "", 10); err != nil || !reflect.DeepEqual(page.Records, []job.Job{j}) {
		t.Errorf("list: %+v, error %v", page.Records, err)
	}
}

func testJobRequest(t *testing.T, s job.Backlog) {
	at, noon := record.TimeOf(jobsCreatedAt), jobsCreatedAt
	j := request(t, s, noon)
	if want := (job.Job{ID: "ada", Workspace: workspace, Status: job.Queued, CreatedAt: at, Until: at, Revision: 1}); !reflect.DeepEqual(j, want) {
		t.Errorf("got %+v, want %+v", j, want)
	}
	j.Status, j.StartedAt, j.Run, j.Tries, j.Details, j.Checkpoint = job.Running, &at, "r", 1, encode(5), encode("e")
	j = replaceJob(t, s, j)

	extended := j
	extended.Status, extended.Run, extended.Tries, extended.Checkpoint, extended.Revision = job.Queued, "", 0, nil, 3
	extended.Until = record.TimeOf(noon.Add(time.Minute))
	if got := request(t, s, noon.Add(time.Minute)); !reflect.DeepEqual(got, extended) {
		t.Errorf("a repeat: got %+v, want %+v", got, extended)
	}
	extended.Revision++
	extended.Until = record.TimeOf(noon.Add(time.Minute + time.Millisecond))
	if got := request(t, s, noon); !reflect.DeepEqual(got, extended) {
		t.Errorf("a repeat by a clock that is behind: got %+v, want %+v", got, extended)
	}
	wantJob(t, s, extended)

	replaceJob(t, s, reports.Finish(extended, job.Succeeded, noon.Add(time.Hour)))
	again := request(t, s, noon.Add(2*time.Hour))
	later := record.TimeOf(noon.Add(2 * time.Hour))
	if want := (job.Job{ID: "ada", Workspace: workspace, Status: job.Queued, CreatedAt: later, Until: later, Revision: 6}); !reflect.DeepEqual(again, want) {
		t.Errorf("after the end: got %+v, want %+v", again, want)
	}
	wantJob(t, s, again)
	if page, err := s.List(t.Context(), workspace, "", 10); err != nil || page.Next != "" || !reflect.DeepEqual(page.Records, []job.Job{again}) {
		t.Errorf("list: %+v, error %v", page.Records, err)
	}
}

func testJobCancelled(t *testing.T, s job.Backlog) {
	putJob(t, s, plainJob("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next := fullJob("a")
	next.Revision = 2
	_, _, createErr := s.Put(ctx, plainJob("b"))
	_, getErr := s.Get(ctx, workspace, "a")
	_, listErr := s.List(ctx, workspace, "", 1)
	_, _, replaceErr := s.Put(ctx, next)
	for call, err := range map[string]error{"create": createErr, "get": getErr, "list": listErr, "replace": replaceErr} {
		if record.CodeOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want code Unavailable because of %v", call, err, context.Canceled)
		}
	}
	wantJob(t, s, plainJob("a"))
	if _, err := s.Get(t.Context(), workspace, "b"); record.CodeOf(err) != record.NotFound {
		t.Errorf("get b: %v", err)
	}
}
