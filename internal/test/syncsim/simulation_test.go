// Package syncsim_test simulates clients that write entities and events, and clients that keep
// copies of them through incremental sync. It runs the domain code on a store with a slow
// network and slow indexes.
package syncsim_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

const (
	writers     = 8
	writesEach  = 6
	readers     = 2
	writerPause = 4 * time.Second
	readerPause = 8 * time.Second
	workspace   = "default"
	seeds       = 10_000 // default of the environment variable SYNC_SEEDS
	seedsRace   = 1_000  // number of seeds with the race detector or -short
)

// TestSimulation checks a reader's copy after each completed walk. The copy must reflect all
// changes before walk.until, and no later changes. checkEntity describes the exceptions. Clock
// errors, delays of writes and indexes, and pauses of readers are random within their bounds.
// The test also checks that each change of an entity has a later time than the previous change.
func TestSimulation(t *testing.T) {
	const shards = 4
	n := seedCount(t)
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < n; seed += shards {
				if wrong := simulate(t, uint64(seed), record.SyncedUntil); len(wrong) > 0 {
					t.Fatalf("seed %d: %v", seed, wrong)
				}
			}
		})
	}
}

// TestSimulationNeedsItsLag checks that the simulation finds lost changes if the lag is too
// short. It tests four lags: zero, record.SyncLag minus the maximum time of a write,
// record.SyncLag minus the maximum delay of an index, and record.SyncLag minus half a second.
func TestSimulationNeedsItsLag(t *testing.T) {
	for _, lag := range []time.Duration{0, record.SyncLag - record.WriteTimeout, record.SyncLag - record.MaxIndexDelay, record.SyncLag - 500*time.Millisecond} {
		t.Run(lag.String(), func(t *testing.T) {
			t.Parallel()
			until := func(since record.Time, now time.Time) record.Time {
				if u := record.TimeOf(now.Add(-lag)); since.Compare(u) < 0 {
					return u
				}
				return since
			}
			for seed := range uint64(seeds) {
				if wrong := simulate(t, seed, until); len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("no seed of %d finds that a lag of %s is too short", seeds, lag)
		})
	}
}

func seedCount(t *testing.T) int {
	if text := os.Getenv("SYNC_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() || raceEnabled() {
		return seedsRace
	}
	return seeds
}

// raceEnabled reports whether the test was built with -race.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// simulate runs the simulation with one seed in its own synctest bubble. It returns the
// errors that it finds.
func simulate(t *testing.T, seed uint64, until func(record.Time, time.Time) record.Time) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{rng: rand.New(rand.NewPCG(seed, 0)), history: make(map[string][]state), events: make(map[string]event.Event)}
		var writing, reading sync.WaitGroup
		for i := range writers {
			writing.Go(func() { write(t, s, rand.New(rand.NewPCG(seed, uint64(1+i))), i) })
		}
		stop := make(chan struct{})
		all := make([]*reader, readers)
		for i := range all {
			all[i] = &reader{
				rng: rand.New(rand.NewPCG(seed, uint64(100+i))), until: until,
				entities: make(map[string]entity.Change), events: make(map[string]event.Event),
			}
			reading.Go(func() { all[i].run(t, s, stop) })
		}
		writing.Wait()
		close(stop)
		reading.Wait()
		time.Sleep(time.Minute)
		wrong = s.back
		for _, r := range all {
			r.walk(t, s, false)
			wrong = append(wrong, r.check(s)...)
		}
	})
	return wrong
}

// write runs a client that writes through an instance whose clock is wrong.
func write(t *testing.T, s *store, rng *rand.Rand, number int) {
	skew := extreme(rng, -record.MaxClockSkew, record.MaxClockSkew)
	for n := range writesEach {
		time.Sleep(between(rng, writerPause))
		ctx, cancel := context.WithTimeout(t.Context(), record.WriteTimeout)
		now, id := time.Now().Add(skew), string(rune('a'+rng.IntN(3)))
		var err error
		switch rng.IntN(6) {
		case 0, 1:
			e := entity.Entity{ID: id, Type: entity.DefaultType, Attributes: record.Attributes(`{}`)}
			_, _, err = entity.Create(ctx, s, workspace, e, now)
		case 2:
			_, err = entity.Update(ctx, s, workspace, id, record.Attributes(fmt.Sprintf(`{"%d":%d}`, number, n)), now)
		case 3, 4:
			err = entity.Delete(ctx, s, workspace, id, now)
		default:
			occurred := record.TimeOf(now.Add(-between(rng, time.Hour)))
			d := event.Draft{ID: fmt.Sprintf("%d-%d", number, n), Name: "n", OccurredAt: &occurred}
			_, _, err = event.Create(ctx, events{s: s}, workspace, d, now)
		}
		_ = err // the client continues after an error
		cancel()
	}
}

// reader is a client that keeps a copy of the entities and a copy of the events. It reads
// through instances whose clocks are wrong.
type reader struct {
	rng      *rand.Rand
	until    func(since record.Time, now time.Time) record.Time
	since    [2]record.Time // start times of the next walks: since[0] for entities, since[1] for events
	entities map[string]entity.Change
	events   map[string]event.Event
	walks    []walk
}

// walk is a completed or incomplete walk. For an incomplete walk, only the field latest is set.
type walk struct {
	until    record.Time // the walk reads the changes before this time
	latest   record.Time // maximum of until over this walk and all earlier walks, even incomplete ones
	ended    time.Time
	entities map[string]entity.Change // the copy after the walk; nil for a walk of events
	events   map[string]event.Event
}

func (r *reader) run(t *testing.T, s *store, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(between(r.rng, readerPause)):
			r.walk(t, s, true)
		}
	}
}

// walk reads the changes of entities and then those of events. If mayStop is true,
// either of these two walks may pause between pages or stop before its end.
func (r *reader) walk(t *testing.T, s *store, mayStop bool) {
	walkPages(r, 0, mayStop, func(q record.SyncQuery) record.Page[entity.Change] {
		page, err := entity.ListChanges(t.Context(), s, workspace, entity.ChangeQuery{SyncQuery: q, IncludeDeleted: true}, time.Now())
		if err != nil {
			t.Error(err)
		}
		return page
	}, func(c entity.Change) { r.entities[c.ID] = c }, func(w walk) walk { w.entities = maps.Clone(r.entities); return w })
	walkPages(r, 1, mayStop, func(q record.SyncQuery) record.Page[event.Event] {
		page, err := event.ListChanges(t.Context(), events{s: s}, workspace, event.ChangeQuery{SyncQuery: q}, time.Now())
		if err != nil {
			t.Error(err)
		}
		return page
	}, func(e event.Event) { r.events[e.ID] = e }, func(w walk) walk { w.events = maps.Clone(r.events); return w })
}

func walkPages[R any](r *reader, noun int, mayStop bool, list func(record.SyncQuery) record.Page[R], apply func(R), note func(walk) walk) {
	skew := extreme(r.rng, -record.MaxClockSkew, record.MaxClockSkew)
	until := r.until(r.since[noun], time.Now().Add(skew))
	latest := until
	for _, w := range r.walks {
		latest = maxTime(latest, w.latest)
	}
	q := record.SyncQuery{Since: r.since[noun], Until: &until}
	for {
		q.Limit = 1 + r.rng.IntN(4)
		page := list(q)
		for _, c := range page.Records {
			apply(c)
		}
		if !page.More {
			break
		}
		q.After = &page.Last
		if mayStop {
			if r.rng.IntN(10) == 0 {
				r.walks = append(r.walks, walk{latest: latest})
				return
			}
			time.Sleep(extreme(r.rng, 0, readerPause))
		}
	}
	r.since[noun] = until
	r.walks = append(r.walks, note(walk{until: until, latest: latest, ended: time.Now()}))
}

// between returns a random duration that is at least 0 and less than d.
func between(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

func maxTime(a, b record.Time) record.Time {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// check compares the copy after each completed walk with the state of the store at walk.until.
// The last walk of entities and the last walk of events began a minute after all writes, so the
// copies after these walks must reflect every write.
func (r *reader) check(s *store) (wrong []string) {
	for _, w := range r.walks {
		if w.entities != nil {
			for id, history := range s.history {
				if detail := w.checkEntity(w.entities[id], history); detail != "" {
					wrong = append(wrong, fmt.Sprintf("walk until %s, entity %s: %s", w.until, id, detail))
				}
			}
		}
		if w.events != nil {
			for id, e := range s.events {
				_, copied := w.events[id]
				if e.CreatedAt.Compare(w.until) < 0 && !copied || copied && e.CreatedAt.Compare(w.latest) >= 0 {
					wrong = append(wrong, fmt.Sprintf("walk until %s: event of %s copied %v", w.until, e.CreatedAt, copied))
				}
			}
		}
	}
	return wrong
}

// checkEntity compares the copy of an entity with its states. The copy must have the state as
// of w.until, with two exceptions. It may be older if that state was overwritten before the
// walk ended. It may be newer if an earlier, incomplete walk had read further.
func (w walk) checkEntity(copied entity.Change, history []state) string {
	at := copied.SyncPosition().At
	var want state
	replaced := false
	for _, h := range history {
		if h.SyncPosition().At.Compare(w.until) < 0 {
			want = h
		} else {
			replaced = replaced || h.committed.Before(w.ended)
		}
	}
	switch d := at.Compare(want.SyncPosition().At); {
	case d < 0 && replaced, d == 0 && copied.Deleted == want.Deleted:
		return ""
	case d > 0 && at.Compare(w.latest) < 0:
		return ""
	}
	return fmt.Sprintf("the copy has the state of %s, the store that of %s", at, want.SyncPosition().At)
}
