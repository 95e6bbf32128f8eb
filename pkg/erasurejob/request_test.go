package erasurejob

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/jobtest"
	"sluice/pkg/entity"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// entityStore is an entity.Store by id, as an instance sees it. The zero value stores nothing.
type entityStore struct {
	all    map[string]entity.Change
	now    func() time.Time
	before func() error // called before each write; may wait, fail, or be nil
}

func (s entityStore) Write(_ context.Context, _ string, w entity.Write) (entity.Change, bool, error) {
	if s.all == nil {
		return entity.Change{}, false, nil
	}
	if s.before != nil {
		if err := s.before(); err != nil {
			return entity.Change{}, false, err
		}
	}
	now := s.now()
	if !w.Asked.IsZero() && now.Sub(w.Asked) >= record.WriteTimeout {
		return entity.Change{}, false, record.UnavailableError("write", errors.New("too late"))
	}
	latest := s.all[w.ID]
	next, ok, err := w.Next(latest, latest.SyncPosition().At.Next(now))
	if err != nil || !ok {
		return latest, false, err
	}
	s.all[w.ID] = next
	return next, true, nil
}

// scene is a service in a synctest bubble, with one entity.
type scene struct {
	t        *testing.T
	entities map[string]entity.Change
	events   *events
	jobs     *jobtest.Store
	worker   *job.Worker
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, entities: make(map[string]entity.Change), events: new(events), jobs: jobtest.NewStore(t, Kind)}
	work, err := NewEraser(s.instance(0, nil), s.events, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.worker, err = job.NewWorker(Kind, s.jobs, work, job.Config{Settle: record.SyncLag, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return s
}

// instance returns the entities as an instance sees them whose clock is ahead.
func (s *scene) instance(ahead time.Duration, before func() error) entityStore {
	return entityStore{all: s.entities, now: func() time.Time { return time.Now().Add(ahead) }, before: before}
}

// erase requests an erasure. before is called between the job and the tombstone.
func (s *scene) erase(ahead time.Duration, before func() error) error {
	store := s.instance(ahead, before)
	_, err := Request(s.t.Context(), Requests{Jobs: s.jobs, Entities: store, Now: store.now}, "default", "ada")
	return err
}

func (s *scene) create(ahead time.Duration) {
	s.t.Helper()
	if _, created, err := s.instance(ahead, nil).Write(s.t.Context(), "default", entity.Creation(entity.Entity{ID: "ada", Type: "person"})); !created || err != nil {
		s.t.Fatalf("created %v, error %v", created, err)
	}
}

func (s *scene) event(ahead time.Duration) {
	s.events.created = append(s.events.created, time.Now().Add(ahead))
}

func (s *scene) run() {
	s.t.Helper()
	run(s.t, s.t.Context(), s.worker)
}

var errDied = errors.New("the instance was killed")

func dies() error { return errDied }

func sleeps(d time.Duration) func() error {
	return func() error {
		time.Sleep(d)
		return nil
	}
}

// Whatever happens between the job and the tombstone, the entity is erased in the end if it existed
// when the erasure was requested, a later one is not, and the job and ErasedAt agree.
func TestWhateverHappensTheJobCompletesTheErasure(t *testing.T) {
	const skew = record.MaxClockSkew
	for name, tt := range map[string]struct {
		happens func(t *testing.T, s *scene)
		live    bool // whether an entity exists in the end
		events  int  // how many events are left
	}{
		"nothing": {happens: func(_ *testing.T, s *scene) {
			s.create(0)
			s.event(0)
			must(t, s.erase(0, nil), nil)
		}},
		"the request dies": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			s.event(0)
			must(t, s.erase(0, dies), errDied)
		}},
		"the id never existed, and the request dies": {happens: func(t *testing.T, s *scene) {
			s.event(0)
			must(t, s.erase(0, dies), errDied)
		}},
		"the id never existed": {happens: func(t *testing.T, s *scene) {
			must(t, s.erase(0, nil), nil)
		}},
		"the request freezes, and wakes before the run": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			if err := s.erase(0, sleeps(record.WriteTimeout)); record.CodeOf(err) != record.Unavailable {
				t.Errorf("error %v", err)
			}
		}},
		"the request freezes, and wakes after the run and a re-creation": {live: true, events: 1, happens: func(t *testing.T, s *scene) {
			s.create(0)
			s.event(0)
			go func() {
				time.Sleep(time.Second)
				s.run()
				s.create(0)
				s.event(0)
			}()
			if err := s.erase(0, sleeps(time.Minute)); record.CodeOf(err) != record.Unavailable {
				t.Errorf("error %v", err)
			}
		}},
		"a response is lost, and the repeat comes from a clock 4 s behind": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			must(t, s.erase(skew, nil), nil)
			s.create(-skew)
			s.event(-skew)
			must(t, s.erase(-skew, nil), nil)
		}},
		"the repeat comes from a clock 4 s behind, and dies": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			must(t, s.erase(skew, nil), nil)
			s.create(-skew)
			must(t, s.erase(-skew, dies), errDied)
		}},
		"an event after the response is stamped by a clock 4 s behind an earlier request": {events: 1, happens: func(t *testing.T, s *scene) {
			must(t, s.erase(skew, nil), nil)
			must(t, s.erase(-skew, nil), nil)
			s.event(-skew)
		}},
		"the request dies, and the entity is created just before its time": {happens: func(t *testing.T, s *scene) {
			must(t, s.erase(skew, dies), errDied)
			s.create(-skew)
		}},
		"the request dies, and the entity is created 4 s after its time": {happens: func(t *testing.T, s *scene) {
			must(t, s.erase(0, dies), errDied)
			time.Sleep(2 * skew)
			s.create(0)
		}},
		"the first of two wakes after the second and a re-creation": {live: true, events: 1, happens: func(t *testing.T, s *scene) {
			s.create(0)
			must(t, s.erase(0, func() error {
				time.Sleep(time.Millisecond)
				must(t, s.erase(0, nil), nil)
				s.create(0)
				s.event(0)
				return nil
			}), nil)
		}},
		"the request dies, and the entity is created later": {live: true, events: 1, happens: func(t *testing.T, s *scene) {
			s.event(0)
			must(t, s.erase(0, dies), errDied)
			time.Sleep(2*skew + time.Millisecond)
			s.create(0)
			s.event(0)
		}},
		"a second erasure dies after a re-creation": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			must(t, s.erase(0, nil), nil)
			s.run()
			s.create(0)
			s.event(0)
			time.Sleep(time.Hour)
			must(t, s.erase(0, dies), errDied)
		}},
		"two at once": {happens: func(t *testing.T, s *scene) {
			s.create(0)
			s.event(0)
			must(t, s.erase(0, func() error { return s.erase(skew, nil) }), nil)
		}},
		"events of the entity are imported meanwhile": {events: 2, happens: func(t *testing.T, s *scene) {
			s.event(0)
			must(t, s.erase(0, func() error {
				s.event(0)
				time.Sleep(time.Millisecond)
				return nil
			}), nil)
			s.event(0)
			time.Sleep(time.Second)
			s.event(0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				tt.happens(t, s)
				for range 3 {
					s.run()
				}
				synctest.Wait()
				j, err := s.jobs.Get(t.Context(), "default", "ada")
				ada := s.entities["ada"]
				if err != nil || j.Status != job.Succeeded || ada.ErasedAt != j.Until {
					t.Errorf("the job is %s and covers what was created until %s; error %v; the entity was erased at %s", j.Status, j.Until, err, ada.ErasedAt)
				}
				if ada.Live() != tt.live || s.events.left() != tt.events {
					t.Errorf("the entity lives: %v, %d events are left; want %v, %d", ada.Live(), s.events.left(), tt.live, tt.events)
				}
			})
		})
	}
}

func must(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
