package erasurejob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/jobtest"
	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// events is a store with the events of one entity, in order of position. Erase calls next
// before each page. If next fails, Erase erases only the first event of the page.
type events struct {
	created []time.Time // creation times; zero for erased events
	next    func(page int) error
	pages   int
}

func eventsCreated(at ...time.Time) *events { return &events{created: at} }

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
		cursor := record.Cursor(fmt.Sprintf("%06d", i))
		if at.IsZero() || cursor < q.Cursor {
			continue
		}
		if looked == q.Limit {
			erased.Next = cursor
			break
		}
		looked++
		if record.TimeOf(at).Compare(q.Until) <= 0 && (err == nil || looked == 1) {
			s.created[i] = time.Time{}
			erased.Events++
		}
	}
	return erased, err
}

func (s *events) left() (n int) {
	for _, at := range s.created {
		if !at.IsZero() {
			n++
		}
	}
	return n
}

func many(n int, t time.Time) []time.Time {
	all := make([]time.Time, n)
	for i := range all {
		all[i] = t
	}
	return all
}

// setUp returns a worker and its store, with one job that was requested just now.
func setUp(t *testing.T, e *events, cfg Config, settle time.Duration) (*job.Worker, *jobtest.Store) {
	t.Helper()
	s := jobtest.NewStore(t, Kind)
	work, err := NewEraser(entityStore{}, e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := job.NewWorker(Kind, s, work, job.Config{Settle: settle, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	request(t, s)
	return w, s
}

func request(t *testing.T, s job.Store) {
	t.Helper()
	if _, err := Request(t.Context(), Requests{Jobs: s, Entities: entityStore{}, Now: time.Now}, "default", "ada"); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, ctx context.Context, w *job.Worker) {
	t.Helper()
	if err := w.Run(ctx, "default", "ada"); err != nil {
		t.Fatal(err)
	}
}

func wantJob(t *testing.T, s job.Store, status job.Status, erased int64) api.ErasureJob {
	t.Helper()
	j, err := Get(t.Context(), s, "default", "ada", time.Now())
	if err != nil || j.Status != status || j.EventsErased != erased {
		t.Errorf("the job is %+v, error %v, want %s and %d", j, err, status, erased)
	}
	return j
}

func TestOnlyEventsUpToTheRequestAreErasedAfterTheLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := eventsCreated(append(many(250, began), began.Add(time.Millisecond), began.Add(-time.Hour))...)
		w, s := setUp(t, e, Config{}, record.SyncLag)
		e.next = func(int) error {
			if lag := time.Since(began); lag != record.SyncLag {
				t.Errorf("a page is erased %s after the request", lag)
			}
			return nil
		}
		run(t, t.Context(), w)
		wantJob(t, s, job.Succeeded, 251)
		if e.left() != 1 || e.pages != 3 {
			t.Errorf("%d events are left after %d pages", e.left(), e.pages)
		}
	})
}

func TestARunHandsOverWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(1000, time.Now())...)
		w, s := setUp(t, e, Config{MaxRate: 100}, 0)
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			run(t, ctx, w)
			cancel()
			if i < 3 {
				wantJob(t, s, job.Queued, int64(300*(i+1)))
			}
		}
		wantJob(t, s, job.Succeeded, 1000)
		if e.pages != 10 || e.left() != 0 {
			t.Errorf("%d pages, %d events left", e.pages, e.left())
		}
	})
}

func TestAThrottledPageIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(250, time.Now())...)
		w, s := setUp(t, e, Config{}, 0)
		e.next = func(page int) error {
			if page%3 != 0 {
				return record.UnavailableError("erase", errors.New("throttled"))
			}
			return nil
		}
		began := time.Now()
		run(t, t.Context(), w)
		wantJob(t, s, job.Succeeded, 250)
		if waited := time.Since(began); e.left() != 0 || waited != 9*time.Second {
			t.Errorf("%d events left after %s", e.left(), waited)
		}
	})
}

func TestAJobContinuesAfterFailedRunsAndFailsAfterTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := eventsCreated(many(250, time.Now())...)
		w, s := setUp(t, e, Config{}, record.SyncLag)
		e.next = func(page int) error {
			if page != 2 && page != 3 {
				return errors.New("not allowed")
			}
			return nil
		}
		failed := 0
		for range 7 {
			if err := w.Run(t.Context(), "default", "ada"); err != nil {
				failed++
			}
		}
		// The first run fails at its first page. The second erases two pages and fails at the third.
		// The next five fail at their first page, and the last of them ends the job. Each run erases
		// one event of the page at which it fails.
		const want = "The erasure failed 5 times in a row at the same place. The service's log says why. Events may remain. Request the erasure again."
		if j := wantJob(t, s, job.Failed, 1+200+6); failed != 6 || j.Error == nil || *j.Error != want {
			t.Errorf("%d runs failed; the job is %+v", failed, j)
		}
	})
}

func TestARequestDuringARunExtendsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// The second event was created between the two requests.
		e := eventsCreated(append([]time.Time{began, began.Add(5 * time.Second)}, many(200, began)...)...)
		w, s := setUp(t, e, Config{}, record.SyncLag)
		e.next = func(page int) error {
			if page == 2 {
				request(t, s)
			}
			return nil
		}
		run(t, t.Context(), w)
		wantJob(t, s, job.Queued, 99)
		run(t, t.Context(), w)
		wantJob(t, s, job.Succeeded, 99+3)
		if e.left() != 0 {
			t.Errorf("%d events are left", e.left())
		}
	})
}
