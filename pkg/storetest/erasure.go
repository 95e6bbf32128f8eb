package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// ErasureStores are the stores that take part in erasures.
type ErasureStores struct {
	Entities entity.Store
	Events   event.Store
	Jobs     job.Store
	Requests erasurejob.Requester

	// Dying stores the job, and dies before it stores the tombstone; nil if that cannot happen.
	Dying erasurejob.Requester
}

// OpenErasures opens stores whose clock is now.
type OpenErasures func(t *testing.T, now func() time.Time) ErasureStores

// Erasures tests what an erasure says: which events it erases, which it leaves, and that copies
// agree with the stores.
func Erasures(t *testing.T, open OpenErasures) {
	for name, run := range map[string]func(*testing.T, *erasures){
		"what is created after the response stays, whatever was stamped ahead": testStampsAhead,
		"what a clock stamped an hour ahead is erased":                         testHourAhead,
		"copies agree with the stores, and read nothing erased":                testErasuresAndCopies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &erasures{dies: -1}
			s.ErasureStores = open(t, s.now)
			work, err := erasurejob.NewEraser(s.Entities, s, erasurejob.Config{PageSize: 2})
			if err == nil {
				s.worker, err = job.NewWorker(erasurejob.Kind, s.Jobs, work, job.Config{Now: s.now, Logger: slog.New(slog.DiscardHandler)})
			}
			if err != nil {
				t.Fatal(err)
			}
			run(t, s)
		})
	}
}

// erasures is a service whose instances have different clocks.
type erasures struct {
	ErasureStores
	worker *job.Worker
	passed time.Duration // in addition to the real time
	ahead  time.Duration // by how much the clock of the next instance is ahead
	dies   int           // after how many pages the next run dies; negative for never
}

func (s *erasures) now() time.Time { return time.Now().Add(s.passed + s.ahead - time.Hour) }

var errRunDied = errors.New("the run died")

// Erase makes erasures the erasurejob.Events of its worker.
func (s *erasures) Erase(ctx context.Context, workspace string, q event.Erasure) (event.Erased, error) {
	if s.dies == 0 {
		return event.Erased{}, errRunDied
	}
	s.dies--
	return s.Events.Erase(ctx, workspace, q)
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (s *erasures) event(ctx context.Context, t failer, workspace, id, entityID string) event.Event {
	t.Helper()
	e, created, err := event.Create(ctx, s.Events, workspace, event.Draft{ID: id, Name: "n", EntityID: entityID})
	if err != nil || !created {
		t.Fatalf("create %s: %v, error %v", id, created, err)
	}
	return e
}

// erase erases an entity, and then, by the same clock, creates an event with the id later.
func (s *erasures) erase(ctx context.Context, t failer, workspace, entityID, later string) (job.Job, event.Event) {
	t.Helper()
	j, err := s.Requests.Request(ctx, workspace, entityID)
	if err != nil {
		t.Fatalf("erase %s: %v", entityID, err)
	}
	e := s.event(ctx, t, workspace, later, entityID)
	if e.CreatedAt.Compare(j.Until) <= 0 {
		t.Fatalf("%s was created at %s, after the response to an erasure up to %s", later, e.CreatedAt, j.Until)
	}
	return j, e
}

// run runs a job once everything that its erasure is about is stored. ended is false if the run
// died.
func (s *erasures) run(ctx context.Context, t failer, workspace, id string) (ended bool) {
	t.Helper()
	s.passed += record.SyncLag
	err := s.worker.Run(ctx, workspace, id)
	if errors.Is(err, errRunDied) {
		return false
	}
	j, getErr := s.Jobs.Get(ctx, workspace, id)
	found, eachErr := s.Entities.GetEach(ctx, workspace, []string{id})
	if err := errors.Join(err, getErr, eachErr); err != nil || j.Status != job.Succeeded || found[id].ErasedAt != j.Until {
		t.Fatalf("after the run: %+v, error %v; the entity is %+v", j, err, found[id])
	}
	return true
}

// testStampsAhead makes 25 erasures of entities that an instance has changed whose clock is up to 4
// seconds ahead. In every tenth, that instance has also erased the entity before.
func testStampsAhead(t *testing.T, s *erasures) {
	const tries = 25
	ctx, lost := t.Context(), 0
	for i := range tries {
		id := fmt.Sprintf("ada-%d", i)
		s.ahead = 2 * record.MaxClockSkew * time.Duration(i+1) / tries
		if i%10 == 0 {
			s.ahead /= 10 // because the second request waits
			if _, err := s.Requests.Request(ctx, workspace, id); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 3 {
			d := entity.Draft{ID: id, Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, n))}
			if err := entity.Upsert(ctx, s.Entities, workspace, id, []entity.Draft{d}, nil).Errs[0]; err != nil {
				t.Fatal(err)
			}
		}
		s.ahead = 0
		old := s.event(ctx, t, workspace, id+"-old", id)
		_, later := s.erase(ctx, t, workspace, id, id+"-later")
		s.run(ctx, t, workspace, id)
		if _, err := s.Events.Get(ctx, workspace, old.ID); record.CodeOf(err) != record.NotFound {
			t.Errorf("%s: error %v", old.ID, err)
		}
		if _, err := s.Events.Get(ctx, workspace, later.ID); err != nil {
			t.Errorf("%s: %v", later.ID, err)
			lost++
		}
	}
	t.Logf("%d erasures, %d later events lost", tries, lost)
}

func testHourAhead(t *testing.T, s *erasures) {
	ctx := t.Context()
	s.ahead = time.Hour
	if _, _, err := entity.Create(ctx, s.Entities, workspace, entity.Draft{ID: "ada"}); err != nil {
		t.Fatal(err)
	}
	wrong := s.event(ctx, t, workspace, "wrong", "ada")
	s.ahead = 0
	_, later := s.erase(ctx, t, workspace, "ada", "later")
	s.run(ctx, t, workspace, "ada")
	if _, err := s.Events.Get(ctx, workspace, wrong.ID); record.CodeOf(err) != record.NotFound {
		t.Errorf("the event of %s: error %v", wrong.CreatedAt, err)
	}
	if _, err := s.Events.Get(ctx, workspace, later.ID); err != nil {
		t.Errorf("the later event: %v", err)
	}
}
