package job_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/jobtest"
	"sluice/pkg/job"
)

var reports = job.Kind{Name: "report", Keep: 24 * time.Hour, Advice: "Ask again."}

type store struct {
	*jobtest.Store
	tb jobtest.TB
}

func newStore(tb jobtest.TB) *store { return &store{jobtest.NewStore(tb, reports), tb} }

func (s *store) unfinishedIn(workspace string) int {
	keys, _ := s.Unfinished(context.Background())
	return len(slices.DeleteFunc(keys, func(k job.Key) bool { return k.Workspace != workspace }))
}

// queue creates the job that most tests use.
func (s *store) queue(now time.Time) {
	s.tb.Helper()
	if _, created, err := job.Create(context.Background(), s, job.Job{Workspace: jobtest.Workspace, ID: jobtest.ID}, now); !created || err != nil {
		s.tb.Fatalf("create: %v, error %v", created, err)
	}
}

// steps is trivial work: it counts up to a number and saves after each step. The count is also
// kept outside the job, until Clean removes it.
type steps struct {
	to   int
	step func(ctx context.Context, n int) error // called before each step; may be nil

	mu   sync.Mutex
	left map[string]int
}

type count struct{ N int }

func (w *steps) Do(ctx context.Context, r *job.Run) (any, error) {
	var shown, at count
	if err := r.Job.Decode(&shown, &at); err != nil {
		return nil, err
	}
	for at.N < w.to {
		if w.step != nil {
			if err := w.step(ctx, at.N+1); err != nil {
				return nil, err
			}
		}
		at.N++
		shown.N++
		w.set(r.Job.ID, at.N)
		if err := r.Save(shown, at, true); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

func (w *steps) set(id string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == nil {
		w.left = make(map[string]int)
	}
	w.left[id] = n
}

func (w *steps) Clean(_ context.Context, j job.Job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.left, j.ID)
	return nil
}

// newWorker discards all logs unless cfg has a logger.
func newWorker(t jobtest.TB, s job.Store, w job.Work, cfg job.Config) *job.Worker {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	worker, err := job.NewWorker(reports, s, w, cfg)
	if err != nil {
		t.Fatalf("new worker: %v", err)
	}
	return worker
}

func (s *store) deliver(ctx context.Context, l *jobtest.Life, w job.Work, cfg job.Config) error {
	l.Store = s.Store
	return s.Deliver(ctx, l, newWorker(s.tb, l, w, cfg))
}

func (s *store) finish(w job.Work) {
	s.tb.Helper()
	s.Finish(func() error {
		return s.deliver(context.Background(), new(jobtest.Life), w, job.Config{MaxTries: 1000})
	})
}

// wantDone checks that the job has succeeded after exactly n steps.
func (s *store) wantDone(n int) {
	s.tb.Helper()
	var shown count
	if err := s.Job().Decode(&shown, nil); err != nil || s.Job().Status != job.Succeeded || shown.N != n {
		s.tb.Errorf("the job is %+v with %+v, error %v, want %d; %v", s.Job(), shown, err, n, s.Trace)
	}
}

func wantFailed(t *testing.T, j job.Job, reason string) {
	t.Helper()
	if j.Status != job.Failed || j.Error == nil || !strings.Contains(*j.Error, reason) {
		t.Errorf("the job is %+v, want the reason %q", j, reason)
	}
}
