package job_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/jobtest"
	"sluice/pkg/job"
)

const quota = 10

// slow is work whose steps take a second each. Jobs have 1,000 steps in workspaces whose names
// begin with "large", and one step elsewhere. fail is called in each step.
func slow(fail func() error) job.Work {
	return does(func(ctx context.Context, r *job.Run) error {
		var at count
		if err := r.Job.Decode(nil, &at); err != nil {
			return err
		}
		to := 1
		if strings.HasPrefix(r.Job.Workspace, "large") {
			to = 1000
		}
		for at.N < to {
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			if err := fail(); err != nil {
				return err
			}
			at.N++
			if err := r.Save(at, at, true); err != nil {
				return err
			}
		}
		return nil
	})
}

func never() error { return nil }

// local is a Runner with its jobs, as in a local server.
type local struct {
	*testing.T
	*store
	*job.Runner
	stop func() // stops the runner and waits for its runs
}

// startLocal starts a runner with one slot in the fast lane and two in the slow lane. Call it
// only in a synctest bubble.
func startLocal(t *testing.T, s *store, fail func() error) *local {
	t.Helper()
	return startRunner(t, s, slow(fail), job.RunnerConfig{Slots: 2, FirstTurn: 5 * time.Second})
}

func startRunner(t *testing.T, s *store, w job.Work, cfg job.RunnerConfig) *local {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := job.NewRunner(reports, s, w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return &local{T: t, store: s, Runner: r, stop: func() { cancel(); r.Wait() }}
}

func (l *local) create(workspace string, n int) {
	l.Helper()
	for i := range n {
		id := fmt.Sprint(i, "-", time.Now().UnixMilli())
		if _, created, err := job.Create(l.Context(), l.Runner, job.Job{ID: id, Workspace: workspace}, time.Now()); !created || err != nil {
			l.Fatalf("created %v, error %v", created, err)
		}
	}
}

// await waits until a workspace has at most n unfinished jobs, and returns how long that took.
func (l *local) await(workspace string, n int) time.Duration {
	began := time.Now()
	for l.unfinishedIn(workspace) > n {
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

// In the first round, the large jobs are new. Later, they have been running for minutes.
func TestASmallJobStartsWhileAnotherWorkspaceHasItsQuotaOfLargeOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLocal(t, newStore(t), never)
		defer l.stop()
		l.create("large", quota)
		for range 3 {
			l.create("small", 1)
			if took := l.await("small", 0); took > 20*time.Second {
				t.Errorf("the small job took %v", took)
			}
			if n := l.unfinishedIn("large"); n != quota {
				t.Errorf("%d large jobs are left", n)
			}
			time.Sleep(200 * time.Second)
		}
		// Two jobs run at a time, and each run continues where the previous one stopped.
		if took := l.await("large", 0); took > 10*1000/2*time.Second {
			t.Errorf("the large jobs took %v", took)
		}
	})
}

func TestWorkspacesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLocal(t, newStore(t), never)
		defer l.stop()
		l.create("large", quota)
		l.create("large, too", 1)
		l.await("large, too", 0)
		if n := l.unfinishedIn("large"); n < quota-3 {
			t.Errorf("the job of one workspace ended when only %d jobs of the other were left", n)
		}
	})
}

func TestARunThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := startLocal(t, newStore(t), func() error {
			if calls++; calls < 4 {
				return jobtest.ErrBroken
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
		s := newStore(t)
		l := startLocal(t, s, never)
		l.create("large", 3)
		time.Sleep(500 * time.Second)
		if waiting, running := l.Load(); waiting != 1 || running != 2 {
			t.Errorf("%d jobs wait and %d run, want 1 and 2", waiting, running)
		}
		l.stop()
		keys, _ := s.Unfinished(t.Context())
		for _, key := range keys {
			if j, err := s.Get(t.Context(), key.Workspace, key.ID); err != nil || j.Status != job.Queued {
				t.Errorf("%v was left %+v, error %v", key, j, err)
			}
		}
		if len(keys) != 3 {
			t.Errorf("%d jobs were left, want 3", len(keys))
		}
		l = startLocal(t, s, never)
		defer l.stop()
		if took := l.await("large", 0); took > 1600*time.Second {
			t.Errorf("the rest took %v", took)
		}
	})
}

// The server stops before a run has cleaned up after a cancelled job.
func TestACancelledJobIsCleanedUpAfterAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := newStore(t), &steps{to: 1000, step: func(ctx context.Context, _ int) error { return pause(ctx, time.Second) }}
		l := startRunner(t, s, w, job.RunnerConfig{})
		s.queue(time.Now())
		l.Queue(s.Job())
		time.Sleep(10 * time.Second)
		l.stop()
		if _, err := reports.Cancel(t.Context(), s, jobtest.Workspace, jobtest.ID, time.Now()); err != nil || len(w.left) == 0 {
			t.Fatalf("left %v, error %v", w.left, err)
		}
		l = startRunner(t, s, w, job.RunnerConfig{})
		l.await(jobtest.Workspace, 0)
		l.stop()
		if len(w.left) != 0 || s.Job().Status != job.Cancelled || s.Job().Unclean {
			t.Errorf("left %v; the job is %+v", w.left, s.Job())
		}
	})
}

// Without FirstTurn, all jobs share the slots.
func TestAJobWaitsForASlotOnlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 4
		s, open := newStore(t), make(chan struct{})
		var runs atomic.Int64
		l := startRunner(t, s, does(func(_ context.Context, r *job.Run) error {
			runs.Add(1)
			<-open
			return nil
		}), job.RunnerConfig{Slots: slots})
		defer l.stop()
		request := func() {
			t.Helper()
			if _, err := job.Request(t.Context(), l.Runner, job.Job{Workspace: "default", ID: "job"}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		for range slots + 10 {
			request()
			synctest.Wait() // returns as soon as the run has a slot or waits for one
		}
		if n := runs.Load(); n != slots {
			t.Errorf("%d runs at once, want %d", n, slots)
		}
		close(open)
		synctest.Wait()
		if n := runs.Load(); n != slots+1 {
			t.Errorf("%d runs after all requests, want %d", n, slots+1)
		}
		request()
		synctest.Wait()
		if n := runs.Load(); n != slots+2 {
			t.Errorf("%d runs after one more request, want %d", n, slots+2)
		}
	})
}
