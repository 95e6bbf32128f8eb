package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

var reports = job.Kind{Name: "report", Keep: 24 * time.Hour, Advice: "Ask again."}

var (
	errDead   = errors.New("this run has been killed")
	errBroken = errors.New("the call failed")
)

// tester has the methods that *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// store is a job.Backlog in memory. It checks every change.
type store struct {
	t    tester
	kind job.Kind

	mu      sync.Mutex
	jobs    map[job.Key]job.Job
	order   []job.Key
	pending int      // how often the stream of the table has still to deliver a job
	trace   []string // the calls so far, for error messages
}

func newStore(t tester) *store {
	return &store{t: t, kind: reports, jobs: make(map[job.Key]job.Job)}
}

func (s *store) Put(ctx context.Context, j job.Job) (job.Job, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return job.Job{}, false, record.UnavailableError("put", err)
	}
	key := job.Key{Workspace: j.Workspace, ID: j.ID}
	was, exists := s.jobs[key]
	switch {
	case !exists && j.Revision != 1:
		return job.Job{}, false, s.kind.NotFoundError(j.ID)
	case was.Revision != j.Revision-1:
		return was, false, nil
	}
	s.check(was, j)
	if !exists {
		s.order = append(s.order, key)
	}
	s.jobs[key] = j
	if j.Lane() != "" {
		s.pending++
	}
	return j, true, nil
}

// check checks a change.
func (s *store) check(was, j job.Job) {
	ended := j.Status.Final()
	switch {
	case was.Status.Final() && j.Status != job.Queued:
		s.t.Errorf("a job that has ended was changed: %+v over %+v; %v", j, was, s.trace)
	case ended != (j.FinishedAt != nil) || ended != (j.ExpiresAt != nil) || ended && (j.Run != "" || j.Tries != 0 || j.Progress != nil):
		s.t.Errorf("wrong at the end: %+v; %v", j, s.trace)
	case (j.Status == job.Running) != (j.Run != "") || j.Status == job.Running && j.StartedAt == nil:
		s.t.Errorf("wrong owner: %+v; %v", j, s.trace)
	}
}

func (s *store) Get(ctx context.Context, workspace, id string) (job.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return job.Job{}, record.UnavailableError("get", err)
	}
	j, exists := s.jobs[job.Key{Workspace: workspace, ID: id}]
	if !exists {
		return job.Job{}, s.kind.NotFoundError(id)
	}
	return j, nil
}

func (s *store) List(context.Context, string, *record.Position, int) (record.Page[job.Job], error) {
	return record.Page[job.Job]{}, errors.ErrUnsupported
}

func (s *store) Unfinished(context.Context) (keys []job.Key, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.order {
		if !s.jobs[key].Status.Final() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// in returns the number of unfinished jobs in a workspace.
func (s *store) in(workspace string) int {
	keys, _ := s.Unfinished(context.Background())
	return len(slices.DeleteFunc(keys, func(k job.Key) bool { return k.Workspace != workspace }))
}

// job returns the job that most tests have.
func (s *store) job() job.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[job.Key{Workspace: "default", ID: "job"}]
}

// queue creates the job that most tests have.
func (s *store) queue(now time.Time) {
	s.t.Helper()
	if _, created, err := job.Create(context.Background(), s, job.Job{Workspace: "default", ID: "job"}, now); !created || err != nil {
		s.t.Fatalf("create: %v, error %v", created, err)
	}
}

// fate is what happens to a call.
type fate int

const (
	fine        fate = iota
	refused          // the call fails without effect
	lost             // the call succeeds, but reports an error
	killed           // the run is killed before the call
	killedAfter      // the run is killed after the call
)

// life is a store as one run sees it, with the faults that a test injects.
type life struct {
	*store
	fate func(call string) fate // nil if all calls succeed
	dead bool
}

// call makes a call with the fate that the test selects.
func (l *life) call(name string, do func() error) error {
	what := fine
	if l.fate != nil && !l.dead {
		what = l.fate(name)
	}
	if l.dead {
		return errDead
	}
	l.trace = append(l.trace, fmt.Sprintf("%s:%d", name, what))
	switch what {
	case refused:
		return errBroken
	case killed:
		l.dead = true
		return errDead
	}
	err := do()
	switch what {
	case lost:
		return errBroken
	case killedAfter:
		l.dead = true
		return errDead
	}
	return err
}

func (l *life) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	err = l.call("put "+string(j.Status), func() (err error) {
		stored, put, err = l.store.Put(ctx, j)
		return err
	})
	return stored, put && err == nil, err
}

func (l *life) Get(ctx context.Context, workspace, id string) (j job.Job, err error) {
	err = l.call("get", func() (err error) {
		j, err = l.store.Get(ctx, workspace, id)
		return err
	})
	return j, err
}

// steps is the trivial work: it counts to a number, saves after each step, and keeps what it
// counts in a place outside the job, which Clean removes.
type steps struct {
	to   int
	step func(ctx context.Context, n int) error // called before each; may be nil

	mu    sync.Mutex
	place map[string]int
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
	if w.place == nil {
		w.place = make(map[string]int)
	}
	w.place[id] = n
}

func (w *steps) Clean(_ context.Context, j job.Job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.place, j.ID)
	return nil
}

// newWorker returns a worker that is silent unless cfg has a logger.
func newWorker(t tester, s job.Store, w job.Work, cfg job.Config) *job.Worker {
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

// deliver runs the job once, as Lambda does for a change in the stream. If the run fails or is
// killed, the delivery stays pending.
func (s *store) deliver(ctx context.Context, l *life, w job.Work, cfg job.Config) error {
	l.store = s
	s.trace = append(s.trace, "[")
	err := newWorker(s.t, l, w, cfg).Run(ctx, "default", "job")
	s.trace = append(s.trace, "]")
	if err == nil && !l.dead {
		s.pending--
	}
	return err
}

// finish delivers the job, without faults, until no delivery is pending. It must then have ended.
func (s *store) finish(w job.Work) {
	s.t.Helper()
	for range 50 {
		if s.pending == 0 {
			break
		}
		if err := s.deliver(context.Background(), new(life), w, job.Config{MaxTries: 1000}); err != nil {
			s.t.Fatalf("a run without faults failed: %v; %v", err, s.trace)
		}
	}
	if s.pending != 0 || !s.job().Status.Final() {
		s.t.Fatalf("the job is left %s with %d deliveries to make; %v", s.job().Status, s.pending, s.trace)
	}
}

// wantDone checks that the job has succeeded after exactly n steps.
func (s *store) wantDone(n int) {
	s.t.Helper()
	var shown count
	if err := s.job().Decode(&shown, nil); err != nil || s.job().Status != job.Succeeded || shown.N != n {
		s.t.Errorf("the job is %+v with %+v, error %v, want %d; %v", s.job(), shown, err, n, s.trace)
	}
}

// wantFailed checks that the job has failed with a reason.
func wantFailed(t *testing.T, j job.Job, reason string) {
	t.Helper()
	if j.Status != job.Failed || j.Error == nil || !strings.Contains(*j.Error, reason) {
		t.Errorf("the job is %+v, want the reason %q", j, reason)
	}
}
