package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/worker"
	"sluice/pkg/record"
)

// jobs is an exportjob.Store and exportjob.Backlog in memory.
type jobs struct {
	mu  sync.Mutex
	all map[exportjob.Key]exportjob.Job
}

func (s *jobs) Create(_ context.Context, j exportjob.Job, _ int) (exportjob.Job, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[exportjob.Key{Workspace: j.Workspace, ID: j.ID}] = j
	return j, true, nil
}

func (s *jobs) Get(_ context.Context, workspace, id string) (exportjob.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[exportjob.Key{Workspace: workspace, ID: id}], nil
}

func (s *jobs) List(context.Context, string, exportjob.Query) (record.Page[exportjob.Job], error) {
	return record.Page[exportjob.Job]{}, errors.ErrUnsupported
}

func (s *jobs) Replace(_ context.Context, j exportjob.Job) (exportjob.Job, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := exportjob.Key{Workspace: j.Workspace, ID: j.ID}
	if s.all[key].Revision != j.Revision-1 {
		return s.all[key], false, nil
	}
	s.all[key] = j
	return j, true, nil
}

func (s *jobs) Unfinished(context.Context) (keys []exportjob.Key, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, j := range s.all {
		if !j.Status.Final() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// in returns the number of unfinished jobs in a workspace.
func (s *jobs) in(workspace string) int {
	keys, _ := s.Unfinished(context.Background())
	return len(slices.DeleteFunc(keys, func(k exportjob.Key) bool { return k.Workspace != workspace }))
}

// slowEvents returns one event per page, and a page takes a second. Workspaces whose name
// begins with "large" have 1,000 events. Other workspaces have one event.
type slowEvents struct{ fail func() error }

func (e slowEvents) List(ctx context.Context, workspace string, q event.Query) (record.Page[event.Event], error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return record.Page[event.Event]{}, ctx.Err()
	}
	if err := e.fail(); err != nil {
		return record.Page[event.Event]{}, err
	}
	n, pages := 1, 1
	if q.After != nil {
		n = int(q.After.At.Time().UnixMilli()) + 1
	}
	if strings.HasPrefix(workspace, "large") {
		pages = 1000
	}
	return record.Page[event.Event]{Records: []event.Event{{ID: "e", Name: "n", OccurredAt: record.TimeOf(time.UnixMilli(int64(n))), Attributes: record.Attributes("{}")}}, More: n < pages}, nil
}

func (slowEvents) Count(context.Context, string, event.Query, record.Time) (int64, error) {
	return 1, nil
}

// noFiles accepts every call and stores nothing.
type noFiles struct{ exportjob.Files }

func (noFiles) Start(context.Context, exportjob.Job) (string, error)            { return "upload", nil }
func (noFiles) Put(context.Context, exportjob.Job, int, []byte) (string, error) { return "etag", nil }
func (noFiles) Complete(context.Context, exportjob.Job) error                   { return nil }
func (noFiles) Abort(context.Context, exportjob.Job) error                      { return nil }
func (noFiles) Delete(context.Context, exportjob.Job) error                     { return nil }

// local is a Runner with its jobs, as in a local server.
type local struct {
	t    *testing.T
	jobs *jobs
	*worker.Runner
	stop func() // stops the runner and waits for its runs
}

// startLocal starts a Runner for the given jobs, with at most two runs at a time in the
// slow lane. Each read of a page of events first calls the function fail. If this
// function returns an error, the read returns the same error. Call startLocal in a
// synctest bubble.
func startLocal(t *testing.T, store *jobs, fail func() error) *local {
	t.Helper()
	runner, err := worker.NewRunner(store, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(runner, struct{ worker.Entities }{}, slowEvents{fail}, noFiles{}, worker.Config{PartBytes: 100, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := runner.Start(ctx, w, store); err != nil {
		t.Fatal(err)
	}
	return &local{t: t, jobs: store, Runner: runner, stop: func() { cancel(); runner.Wait() }}
}

func newJobs() *jobs { return &jobs{all: make(map[exportjob.Key]exportjob.Job)} }

func never() error { return nil }

func (l *local) create(workspace string, n int) {
	l.t.Helper()
	for i := range n {
		j := exportjob.Job{ID: fmt.Sprint(i), Workspace: workspace, Resource: record.Event, Format: exportjob.NDJSON}
		if _, _, err := exportjob.Create(l.t.Context(), l, j, n, time.Now()); err != nil {
			l.t.Fatal(err)
		}
	}
}

// await waits until a workspace has at most n unfinished jobs, and returns the time
// that this took.
func (l *local) await(workspace string, n int) time.Duration {
	began := time.Now()
	for l.jobs.in(workspace) > n {
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

// In the first round the large jobs are new. In later rounds they have been running for
// minutes.
func TestASmallJobStartsWhileAnotherWorkspaceHasItsQuotaOfLargeOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLocal(t, newJobs(), never)
		defer l.stop()
		l.create("large", exportjob.DefaultQuota)
		for range 3 {
			l.create("small", 1)
			if took := l.await("small", 0); took > 20*time.Second {
				t.Errorf("the small job took %v", took)
			}
			if n := l.jobs.in("large"); n != exportjob.DefaultQuota {
				t.Errorf("%d large jobs are left", n)
			}
			time.Sleep(200 * time.Second)
		}
		// Two jobs run at a time, and each run of a job continues where the previous run
		// stopped.
		if took := l.await("large", 0); took > 10*1000/2*time.Second {
			t.Errorf("the large jobs took %v", took)
		}
	})
}

func TestWorkspacesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLocal(t, newJobs(), never)
		defer l.stop()
		l.create("large", exportjob.DefaultQuota)
		l.create("large, too", 1)
		l.await("large, too", 0)
		if n := l.jobs.in("large"); n < exportjob.DefaultQuota-3 {
			t.Errorf("the job of one workspace ended when only %d jobs of the other were left", n)
		}
	})
}

func TestARunThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := startLocal(t, newJobs(), func() error {
			if calls++; calls < 4 {
				return errBroken
			}
			return nil
		})
		defer l.stop()
		l.create("small", 1)
		if took := l.await("small", 0); took < 15*time.Second || took > 30*time.Second {
			t.Errorf("the job took %v", took)
		}
	})
}

func TestJobsContinueAfterAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newJobs()
		l := startLocal(t, store, never)
		l.create("large", 3)
		time.Sleep(500 * time.Second)
		l.stop()
		for key, j := range store.all {
			if j.Status != exportjob.Queued || j.Progress.Run != "" {
				t.Errorf("%v was left %+v", key, j)
			}
		}
		l = startLocal(t, store, never)
		defer l.stop()
		if took := l.await("large", 0); took > 1600*time.Second {
			t.Errorf("the rest took %v", took)
		}
	})
}

// The cleanup run of a cancelled job is in the fast lane, so it does not wait for
// large jobs.
func TestTheLaneOfAJob(t *testing.T) {
	t.Parallel()
	started := record.TimeOf(created)
	for _, tt := range []struct {
		job  exportjob.Job
		want exportjob.Lane
	}{
		{exportjob.Job{Status: exportjob.Queued}, exportjob.Fast},
		{exportjob.Job{Status: exportjob.Queued, StartedAt: &started}, exportjob.Slow},
		{exportjob.Job{Status: exportjob.Cancelled, StartedAt: &started}, exportjob.Fast},
		{exportjob.Job{Status: exportjob.Running, StartedAt: &started}, ""},
		{exportjob.Job{Status: exportjob.Succeeded, StartedAt: &started}, ""},
		{exportjob.Job{Status: exportjob.Failed, StartedAt: &started}, ""},
	} {
		if got := tt.job.Lane(); got != tt.want {
			t.Errorf("%s, started at %v: %q, want %q", tt.job.Status, tt.job.StartedAt, got, tt.want)
		}
	}
}
