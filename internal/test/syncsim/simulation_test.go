// Package syncsim_test simulates clients that write entities and events, and clients that keep
// copies of them by incremental sync. It runs the real domain packages, stores and SDK on a
// simulated DynamoDB with a slow network and slow indexes.
package syncsim_test

import (
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

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/dynamo"
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
	seeds       = 2_000 // unless the environment variable SYNC_SEEDS is set
	seedsRace   = 200   // with the race detector or -short
	lagSeeds    = 20_000
)

// TestSimulation checks a reader's copy after each complete walk: it must reflect all changes
// before walk.until, and no later ones, except as checkEntity allows. One reader copies the
// entities of one type, and writers change types. Clock errors, delays of writes and indexes,
// lost responses, repeated calls and pauses of readers are random within their bounds. At the
// end, the copy must have exactly the events that were not erased. No change of an entity may have
// an earlier stamp than the previous one.
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

// TestSimulationNeedsItsLag checks that the simulation finds lost changes if the lag is zero
// or lacks WriteTimeout or MaxTransit. (MaxIndexDelay equals MaxTransit.) With SYNC_SEEDS, the
// test runs for minutes and also tries a lag that is half a second too short.
func TestSimulationNeedsItsLag(t *testing.T) {
	shorter := []time.Duration{record.SyncLag, record.WriteTimeout, record.MaxTransit}
	if os.Getenv("SYNC_SEEDS") != "" {
		shorter = append(shorter, 500*time.Millisecond)
	}
	for _, short := range shorter {
		lag := record.SyncLag - short
		t.Run(lag.String(), func(t *testing.T) {
			t.Parallel()
			until := func(since record.Time, now time.Time) record.Time {
				if u := record.TimeOf(now.Add(-lag)); since.Compare(u) < 0 {
					return u
				}
				return since
			}
			for seed := range uint64(lagSeeds) {
				if wrong := simulate(t, seed, until); len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("no seed of %d finds that a lag of %s is too short", lagSeeds, lag)
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

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// world is a simulated DynamoDB and a history of the writes that it has applied.
type world struct {
	*engine
	client  *dynamodb.Client
	history map[string][]state // states of each entity; the last one is current
	events  map[string]event.Event
	back    []string // changes whose stamp is earlier than that of the previous change
}

type state struct {
	at        record.Time // stamp of the change
	deleted   bool
	typ       string
	erasedAt  record.Time
	committed time.Time
}

func newWorld(seed uint64) *world {
	w := &world{
		engine: &engine{
			rng:     rand.New(rand.NewPCG(seed, 0)),
			tables:  map[string]map[string]item{"entities": {}, "events": {}},
			indexes: make(map[string][]*entry),
		},
		history: make(map[string][]state), events: make(map[string]event.Event),
	}
	w.client, w.applied = w.engine.client(), w.note
	return w
}

// note records a write that the engine has applied.
func (w *world) note(table string, _, it item) {
	id := text(it, "id")
	at, err := record.ParsePosition(text(it, "change"))
	if err != nil {
		panic(err)
	}
	if table == "events" {
		w.events[id] = event.Event{ID: id, EntityID: text(it, "entity_id"), CreatedAt: at.At}
		return
	}
	now := state{at: at.At, deleted: it["expires_at"] != nil, typ: text(it, "type"), committed: time.Now()}
	if erased := text(it, "erased_at"); erased != "" {
		now.erasedAt, _ = record.ParseTime(erased)
	}
	if all := w.history[id]; len(all) > 0 && all[len(all)-1].at.Compare(now.at) > 0 {
		w.back = append(w.back, fmt.Sprintf("%s: %s before %s", id, all[len(all)-1].at, now.at))
	}
	w.history[id] = append(w.history[id], now)
}

// stores returns the stores of an instance whose clock is off by skew.
func (w *world) stores(t *testing.T, skew time.Duration) (entity.Store, event.Store) {
	now := func() time.Time { return time.Now().Add(skew) }
	entities, err := dynamo.NewEntities(w.client, "entities", dynamo.EntitiesConfig{Clock: entity.Clock{Now: now}})
	if err != nil {
		t.Fatal(err)
	}
	events, err := dynamo.NewEvents(w.client, "events", dynamo.EventsConfig{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return entities, events
}

// simulate runs one seed in a synctest bubble and returns the errors that it finds.
func simulate(t *testing.T, seed uint64, until func(record.Time, time.Time) record.Time) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		var writing, reading sync.WaitGroup
		for i := range writers {
			writing.Go(func() { write(t, w, rand.New(rand.NewPCG(seed, uint64(1+i))), i) })
		}
		stop := make(chan struct{})
		all := make([]*reader, readers)
		for i := range all {
			all[i] = &reader{
				rng: rand.New(rand.NewPCG(seed, uint64(100+i))), until: until,
				entities: make(map[string]entity.Change), events: make(map[string]event.Event), erased: make(map[string]record.Time),
			}
			if i == 0 {
				all[i].typ = "x"
			}
			all[i].store, all[i].eventStore = w.stores(t, 0)
			reading.Go(func() { all[i].run(t, stop) })
		}
		writing.Wait()
		close(stop)
		reading.Wait()
		time.Sleep(time.Minute)
		wrong = w.back
		for _, r := range all {
			r.walk(t, false)
			wrong = append(wrong, r.check(w)...)
		}
	})
	return wrong
}

// write makes random calls to an instance whose clock is off, and may repeat failed calls.
func write(t *testing.T, w *world, rng *rand.Rand, number int) {
	entities, events := w.stores(t, extreme(rng, -record.MaxClockSkew, record.MaxClockSkew))
	for n := range writesEach {
		time.Sleep(between(rng, writerPause))
		id := string(rune('a' + rng.IntN(3)))
		call := func() (err error) {
			_, err = entity.Erase(t.Context(), entities, workspace, id)
			return err
		}
		switch rng.IntN(8) {
		case 0, 1:
			d := entity.Draft{ID: id, Type: string(rune('x' + rng.IntN(2)))}
			call = func() (err error) { _, _, err = entity.Create(t.Context(), entities, workspace, d); return err }
		case 2:
			patch := record.Attributes(fmt.Sprintf(`{"%d":%d}`, number, n))
			call = func() (err error) {
				_, err = entity.Update(t.Context(), entities, workspace, id, patch, nil)
				return err
			}
		case 3, 4:
			call = func() error { return entity.Delete(t.Context(), entities, workspace, id, nil) }
		case 5, 6:
			d := event.Draft{ID: fmt.Sprintf("%d-%d", number, n), Name: "n", EntityID: id}
			call = func() (err error) { _, _, err = event.Create(t.Context(), events, workspace, d); return err }
		}
		for range 3 {
			if err := call(); record.CodeOf(err) != record.Unavailable || rng.IntN(2) == 0 {
				break
			}
		}
	}
}

// reader keeps a copy of the entities and events. It reads through instances whose clocks are
// off.
type reader struct {
	rng        *rand.Rand
	store      entity.Store
	eventStore event.Store
	until      func(since record.Time, now time.Time) record.Time
	typ        string         // type of the entities in the copy; "" for all
	since      [2]record.Time // where the next walks start: since[0] for entities, since[1] for events
	entities   map[string]entity.Change
	events     map[string]event.Event
	erased     map[string]record.Time // latest erasure of each entity
	walks      []walk
}

// walk describes one walk of a reader. For an incomplete walk, only latest is set.
type walk struct {
	until    record.Time // the walk has read all changes before this time
	latest   record.Time // latest value of until in this and all earlier walks, including incomplete walks
	ended    time.Time
	entities map[string]entity.Change // the copy after the walk; nil for a walk of events
	events   map[string]event.Event
}

func (r *reader) run(t *testing.T, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(between(r.rng, readerPause)):
			r.walk(t, true)
		}
	}
}

// walk reads the changes of entities and then those of events. If mayStop is true, it may
// pause between pages or stop early.
func (r *reader) walk(t *testing.T, mayStop bool) {
	walkPages(r, 0, mayStop, func(q record.SyncQuery) record.Page[entity.Change] {
		page, err := entity.ListChanges(t.Context(), r.store, workspace, entity.ChangeQuery{SyncQuery: q, Type: r.typ, IncludeDeleted: true}, time.Now())
		if err != nil {
			t.Error(err)
		}
		return page
	}, func(c entity.Change) {
		r.entities[c.ID] = c
		r.erased[c.ID] = maxTime(r.erased[c.ID], c.ErasedAt)
		maps.DeleteFunc(r.events, func(_ string, e event.Event) bool { return r.drops(e) })
	}, func(w walk) walk { w.entities = maps.Clone(r.entities); return w })
	walkPages(r, 1, mayStop, func(q record.SyncQuery) record.Page[event.Change] {
		page, err := event.ListChanges(t.Context(), r.eventStore, workspace, event.ChangeQuery{SyncQuery: q})
		if err != nil {
			t.Error(err)
		}
		return page
	}, func(c event.Change) {
		if !r.drops(c.Event) {
			r.events[c.ID] = c.Event
		}
	}, func(w walk) walk { w.events = maps.Clone(r.events); return w })
}

// drops reports whether an erasure that r has read applies to e.
func (r *reader) drops(e event.Event) bool { return erases(r.erased[e.EntityID], e) }

// erases reports whether an entity's latest erasure applies to e. The zero time means no erasure.
func erases(at record.Time, e event.Event) bool {
	return at != record.Time{} && e.CreatedAt.Compare(at) <= 0
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
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
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

// between returns a random duration of at least 0 and less than d.
func between(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

func maxTime(a, b record.Time) record.Time {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// extreme returns a random duration from low to high, and often exactly low or high.
func extreme(rng *rand.Rand, low, high time.Duration) time.Duration {
	if low == high {
		return low
	}
	switch rng.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	}
	return low + between(rng, high-low)
}

// check compares the copy after each complete walk with the store as of walk.until. The last
// walks began a minute after the last write, so their copies must reflect every write.
func (r *reader) check(s *world) (wrong []string) {
	last := 0
	for i, w := range r.walks {
		if w.entities != nil {
			for id, history := range s.history {
				if detail := w.checkEntity(w.entities[id], history, r.typ); detail != "" {
					wrong = append(wrong, fmt.Sprintf("walk until %s, entity %s: %s", w.until, id, detail))
				}
			}
		}
		if w.events != nil {
			last = i
			for id, e := range s.events {
				_, copied := w.events[id]
				missed := e.CreatedAt.Compare(w.until) < 0 && !copied && !erases(s.erasedAt(e), e)
				if missed || copied && e.CreatedAt.Compare(w.latest) >= 0 {
					wrong = append(wrong, fmt.Sprintf("walk until %s: event of %s copied %v", w.until, e.CreatedAt, copied))
				}
			}
		}
	}
	for id, e := range r.walks[last].events {
		if at := s.erasedAt(e); erases(at, e) {
			wrong = append(wrong, fmt.Sprintf("the copy still has the event %s of %s, erased at %s", id, e.CreatedAt, at))
		}
	}
	return wrong
}

// erasedAt returns the time of the latest erasure of e's entity.
func (s *world) erasedAt(e event.Event) (at record.Time) {
	for _, h := range s.history[e.EntityID] {
		at = maxTime(at, h.erasedAt)
	}
	return at
}

// checkEntity returns "" if the copy has the state of an entity as of w.until. Otherwise it
// says what is wrong. The copy may be older if the entity changed again before the walk ended,
// and newer if an earlier, incomplete walk had read further. In a copy of one type, entities of
// other types count as deleted.
func (w walk) checkEntity(copied entity.Change, history []state, typ string) string {
	at := copied.SyncPosition().At
	var want state
	replaced := false
	for _, h := range history {
		h.deleted = h.deleted || typ != "" && h.typ != typ
		if h.at.Compare(w.until) < 0 {
			want = h
		} else {
			replaced = replaced || h.committed.Before(w.ended)
		}
	}
	switch d := at.Compare(want.at); {
	case d < 0 && replaced, d == 0 && copied.Deleted == want.deleted:
		return ""
	case d > 0 && at.Compare(w.latest) < 0:
		return ""
	}
	return fmt.Sprintf("the copy has the state of %s, the store that of %s", at, want.at)
}
