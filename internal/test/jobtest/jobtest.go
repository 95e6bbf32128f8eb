// Package jobtest keeps jobs in memory, for tests in which runs are killed or calls fail.
package jobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

const (
	Workspace = "default"
	ID        = "job"
)

// TB has the methods of *testing.T and *rapid.T that a Store calls.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Store is a job.Backlog for jobs of one kind. It checks every change of a job.
type Store struct {
	Pending int      // how many times the table's stream still has to deliver a job
	Trace   []string // the calls so far, for error messages

	tb    TB
	kind  job.Kind
	mu    sync.Mutex
	jobs  map[job.Key]job.Job
	order []job.Key
}

func NewStore(tb TB, kind job.Kind) *Store {
	return &Store{tb: tb, kind: kind, jobs: make(map[job.Key]job.Job)}
}

// Put ignores the quota.
func (s *Store) Put(ctx context.Context, j job.Job) (job.Job, bool, error) {
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
		s.Pending++
	}
	return j, true, nil
}

func (s *Store) check(was, j job.Job) {
	ended := j.Status.Final()
	switch {
	case was.Status.Final() && j.Status != job.Queued && (j.Status != was.Status || j.FinishedAt != was.FinishedAt):
		s.tb.Errorf("a job that has ended was changed: %+v over %+v; %v", j, was, s.Trace)
	case ended != (j.FinishedAt != nil) || ended != (j.ExpiresAt != nil) || ended && (j.Run != "" || j.Tries != 0 || j.Checkpoint != nil):
		s.tb.Errorf("wrong at the end: %+v; %v", j, s.Trace)
	case (j.Status == job.Running) != (j.Run != "") || j.Status == job.Running && j.StartedAt == nil:
		s.tb.Errorf("wrong owner: %+v; %v", j, s.Trace)
	}
}

func (s *Store) Get(ctx context.Context, workspace, id string) (job.Job, error) {
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

// List always fails.
func (s *Store) List(context.Context, string, record.Cursor, int) (record.Page[job.Job], error) {
	return record.Page[job.Job]{}, errors.ErrUnsupported
}

// Unfinished returns jobs in order of creation.
func (s *Store) Unfinished(context.Context) ([]job.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.order), func(k job.Key) bool { return s.jobs[k].Status.Final() && !s.jobs[k].Unclean }), nil
}

// Job returns the job that most tests use.
func (s *Store) Job() job.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[job.Key{Workspace: Workspace, ID: ID}]
}

// Deliver runs the job once, as Lambda does for a change in the stream. The worker must make
// its calls through l. If the run fails or is killed, the delivery stays pending.
func (s *Store) Deliver(ctx context.Context, l *Life, w *job.Worker) error {
	s.Trace = append(s.Trace, "[")
	err := w.Run(ctx, Workspace, ID)
	s.Trace = append(s.Trace, "]")
	if err == nil && !l.Dead.Load() {
		s.Pending--
	}
	return err
}

// Finish calls deliver until no delivery is pending. deliver must run the job without faults.
// The test fails if the job has not ended by then.
func (s *Store) Finish(deliver func() error) {
	s.tb.Helper()
	for range 50 {
		if s.Pending == 0 {
			break
		}
		if err := deliver(); err != nil {
			s.tb.Fatalf("a run without faults failed: %v; %v", err, s.Trace)
		}
	}
	if s.Pending != 0 || !s.Job().Status.Final() {
		s.tb.Fatalf("the job is left %s with %d deliveries to make; %v", s.Job().Status, s.Pending, s.Trace)
	}
}

// Fate is what happens to a call.
type Fate int

const (
	Fine        Fate = iota
	Refused          // the call fails and has no effect
	Lost             // the call succeeds, but reports an error
	Killed           // the run is killed before the call
	KilledAfter      // the run is killed after the call
)

var (
	ErrDead   = errors.New("this run has been killed")
	ErrBroken = errors.New("the call failed")
)

// Life is a Store as one run sees it, with the faults that a test injects.
type Life struct {
	*Store
	Fate func(call string) Fate // nil if all calls succeed
	Dead atomic.Bool            // whether the run was killed
}

// Call makes a call on behalf of the run, with the fate that the test has chosen.
func (l *Life) Call(name string, do func() error) error {
	what := Fine
	if l.Fate != nil && !l.Dead.Load() {
		what = l.Fate(name)
	}
	if l.Dead.Load() {
		return ErrDead
	}
	l.Trace = append(l.Trace, fmt.Sprintf("%s:%d", name, what))
	switch what {
	case Refused:
		return ErrBroken
	case Killed:
		l.Dead.Store(true)
		return ErrDead
	}
	err := do()
	switch what {
	case Lost:
		return ErrBroken
	case KilledAfter:
		l.Dead.Store(true)
		return ErrDead
	}
	return err
}

func (l *Life) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	err = l.Call("put "+string(j.Status), func() (err error) {
		stored, put, err = l.Store.Put(ctx, j)
		return err
	})
	return stored, put && err == nil, err
}

func (l *Life) Get(ctx context.Context, workspace, id string) (j job.Job, err error) {
	err = l.Call("get", func() (err error) {
		j, err = l.Store.Get(ctx, workspace, id)
		return err
	})
	return j, err
}
