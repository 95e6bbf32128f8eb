package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/erasurejob"
	"sluice/pkg/erasurejob/worker"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// jobs is an erasurejob.Store and Backlog of one job in memory.
type jobs struct {
	mu  sync.Mutex
	job erasurejob.Job
	log []string // status and number of erased events of each stored version, in order

	respond func(erasurejob.Job) error // if not nil, Replace calls this function after it stores a job, and returns its error
}

func (s *jobs) Get(_ context.Context, _, id string) (erasurejob.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job.ID != id {
		return erasurejob.Job{}, erasurejob.NotFoundError(id)
	}
	return s.job, nil
}

func (s *jobs) Replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	replaced, err := s.replace(ctx, j)
	if replaced && s.respond != nil {
		err = s.respond(j)
	}
	return replaced && err == nil, err
}

func (s *jobs) replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, record.UnavailableError("replace", err)
	}
	if s.job.Revision != j.Revision-1 {
		return false, nil
	}
	s.job = j
	s.log = append(s.log, fmt.Sprint(j.Status, " ", j.EventsErased))
	return true, nil
}

func (s *jobs) Unfinished(context.Context) ([]erasurejob.Key, error) {
	if s.job.ID == "" || s.job.Status.Final() {
		return nil, nil
	}
	return []erasurejob.Key{{Workspace: s.job.Workspace, ID: s.job.ID}}, nil
}

// events is a store of the events of one entity. The event with index i is at position i.
// Before each page, Erase calls the function next. If next returns an error, Erase erases
// only the first event of the page.
type events struct {
	created []time.Time // times of creation; zero for erased events
	next    func(page int) error
	pages   int
}

func eventsCreated(at ...time.Time) *events { return &events{created: at} }

func position(i int) record.Position { return record.Position{ID: fmt.Sprintf("%06d", i)} }

func (s *events) Erase(ctx context.Context, _ string, q event.Erasure) (erased event.Erased, err error) {
	s.pages++
	if s.next != nil {
		err = s.next(s.pages)
	}
	if ctx.Err() != nil {
		return event.Erased{}, record.UnavailableError("erase", ctx.Err())
	}
	looked := 0
	for i, at := range s.created {
		p := position(i)
		if at.IsZero() || q.After != nil && p.Compare(*q.After) <= 0 {
			continue
		}
		if erased.More = looked == q.Limit; erased.More {
			break
		}
		looked++
		erased.Last = &p
		if record.TimeOf(at).Compare(q.Until) <= 0 && (err == nil || looked == 1) {
			s.created[i] = time.Time{}
			erased.Events++
		}
	}
	return erased, err
}

// left returns the number of events that are not erased.
func (s *events) left() (n int) {
	for _, at := range s.created {
		if !at.IsZero() {
			n++
		}
	}
	return n
}

// many returns a slice with n copies of t.
func many(n int, t time.Time) []time.Time {
	all := make([]time.Time, n)
	for i := range all {
		all[i] = t
	}
	return all
}

// setUp returns a worker and its store. The store has one job, which is requested at the
// current time.
func setUp(t *testing.T, e *events, cfg worker.Config) (*worker.Worker, *jobs) {
	t.Helper()
	s := &jobs{}
	cfg.Logger = slog.New(slog.DiscardHandler)
	w, err := worker.New(s, e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	request(t, s)
	return w, s
}

func request(t *testing.T, s erasurejob.Store) {
	t.Helper()
	if _, err := erasurejob.Request(t.Context(), s, "default", "ada", record.TimeOf(time.Now()), time.Now()); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, ctx context.Context, w *worker.Worker) {
	t.Helper()
	if err := w.Run(ctx, "default", "ada"); err != nil {
		t.Fatal(err)
	}
}

func wantJob(t *testing.T, s *jobs, status erasurejob.Status, erased int64) {
	t.Helper()
	if s.job.Status != status || s.job.EventsErased != erased {
		t.Errorf("the job is %s and has erased %d, want %s and %d", s.job.Status, s.job.EventsErased, status, erased)
	}
}

func TestOnlyEventsUpToTheRequestAreErasedAfterTheLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := eventsCreated(append(many(250, began), began.Add(time.Millisecond), began.Add(-time.Hour))...)
		w, s := setUp(t, e, worker.Config{})
		e.next = func(int) error {
			if lag := time.Since(began); lag != record.SyncLag {
				t.Errorf("a page is erased %s after the request", lag)
			}
			return nil
		}
		run(t, t.Context(), w)
		wantJob(t, s, erasurejob.Succeeded, 251)
		if e.left() != 1 || e.pages != 3 || s.job.FinishedAt == nil || s.job.Progress != (erasurejob.Progress{}) {
			t.Errorf("%d events are left after %d pages; the job is %+v", e.left(), e.pages, s.job)
		}
		revision := s.job.Revision
		run(t, t.Context(), w) // the job is delivered again after its end
		if err := w.Run(t.Context(), "default", "bob"); err != nil || s.job.Revision != revision {
			t.Errorf("error %v, revision %d after %d", err, s.job.Revision, revision)
		}
	})
}

func TestARunHandsOverWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(1000, time.Now())...)
		w, s := setUp(t, e, worker.Config{MaxRate: 100, Settle: time.Nanosecond})
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			run(t, ctx, w)
			cancel()
			if i < 3 {
				wantJob(t, s, erasurejob.Queued, int64(300*(i+1)))
			}
		}
		wantJob(t, s, erasurejob.Succeeded, 1000)
		if e.pages != 10 || e.left() != 0 {
			t.Errorf("%d pages, %d events left", e.pages, e.left())
		}
	})
}

func TestAThrottledPageIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(250, time.Now())...)
		w, s := setUp(t, e, worker.Config{Settle: time.Nanosecond})
		e.next = func(page int) error {
			if page%3 != 0 {
				return record.UnavailableError("erase", errors.New("throttled"))
			}
			return nil
		}
		began := time.Now()
		run(t, t.Context(), w)
		wantJob(t, s, erasurejob.Succeeded, 250)
		if waited := time.Since(began); e.left() != 0 || waited != 9*time.Second+time.Nanosecond {
			t.Errorf("%d events left after %s", e.left(), waited)
		}
	})
}

func TestAJobContinuesAfterFailedRunsAndFailsAfterTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(250, time.Now())...)
		w, s := setUp(t, e, worker.Config{})
		e.next = func(page int) error {
			if page != 2 && page != 3 {
				return errors.New("not allowed")
			}
			return nil
		}
		failed := 0
		for !s.job.Status.Final() {
			if err := w.Run(t.Context(), "default", "ada"); err != nil {
				failed++
			}
		}
		// The first run fails at its first page. The second run erases two pages and
		// fails at the third. The next five runs fail at their first page, and the last
		// of them ends the job. Each run erases one event of the page at which it fails.
		wantJob(t, s, erasurejob.Failed, 1+200+6)
		if failed != 6 || s.job.Error == nil {
			t.Errorf("%d runs failed; the job is %+v", failed, s.job)
		}
	})
}

func TestAnUnavailableStoreDoesNotFailAStoppedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(10, time.Now())...)
		w, s := setUp(t, e, worker.Config{MaxTries: 2})
		e.next = func(int) error { return record.UnavailableError("erase", errors.New("down")) }
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			run(t, ctx, w)
			if s.job.Status != erasurejob.Queued || s.job.Progress.Tries != 0 {
				t.Fatalf("the job is %+v", s.job)
			}
		}
	})
}

// The store saves the progress after a page, but the response is lost. In one case, the
// deadline of the run passes before the save returns an error. In the other case, the run
// is the last try of the job.
func TestARunEndsTheJobAfterALostResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		maxTries int
		response time.Duration // time until the save fails
		status   erasurejob.Status
	}{
		"deadline": {5, 20 * time.Second, erasurejob.Queued},
		"last try": {1, time.Second, erasurejob.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := eventsCreated(many(250, time.Now())...)
				w, s := setUp(t, e, worker.Config{Settle: time.Nanosecond, MaxTries: tt.maxTries, Grace: time.Minute})
				s.respond = func(j erasurejob.Job) error {
					if j.EventsErased != 100 || j.Status != erasurejob.Running {
						return nil
					}
					time.Sleep(tt.response)
					return record.UnavailableError("replace", errors.New("no response"))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				run(t, ctx, w)
				wantJob(t, s, tt.status, 100)
				if s.job.Progress.Run != "" {
					t.Errorf("run %s still has the job", s.job.Progress.Run)
				}
			})
		})
	}
}

func TestARequestDuringARunExtendsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// The second event was created after the first request and before the second
		// request.
		e := eventsCreated(append([]time.Time{began, began.Add(5 * time.Second)}, many(200, began)...)...)
		w, s := setUp(t, e, worker.Config{})
		e.next = func(page int) error {
			if page == 2 {
				request(t, s)
			}
			return nil
		}
		run(t, t.Context(), w)
		wantJob(t, s, erasurejob.Queued, 99)
		run(t, t.Context(), w)
		wantJob(t, s, erasurejob.Succeeded, 99+3)
		if e.left() != 0 {
			t.Errorf("%d events are left", e.left())
		}
	})
}

func TestARunnerRunsQueuedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s, logger := eventsCreated(many(150, time.Now())...), &jobs{}, slog.New(slog.DiscardHandler)
		request(t, s) // an earlier process requests the job
		r := worker.NewRunner(s, logger)
		w, err := worker.New(r, e, worker.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		e.next = func(page int) error {
			if page == 1 {
				return errors.New("fails once")
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		if err := r.Start(ctx, w, s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantJob(t, s, erasurejob.Succeeded, 150)

		e.created = many(10, time.Now())
		request(t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantJob(t, s, erasurejob.Succeeded, 10)

		e.created = many(10, time.Now())
		request(t, r)
		time.Sleep(time.Second) // less than record.SyncLag
		stop()
		r.Wait()
		wantJob(t, s, erasurejob.Queued, 0)
	})
}

func TestNewNeedsStores(t *testing.T) {
	if _, err := worker.New(nil, &events{}, worker.Config{}); err == nil {
		t.Error("no error without jobs")
	}
	if _, err := worker.New(&jobs{}, nil, worker.Config{}); err == nil {
		t.Error("no error without events")
	}
}
