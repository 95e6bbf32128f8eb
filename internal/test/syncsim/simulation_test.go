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
	busyWrites  = 12 // of one more writer, which changes one entity again and again
	readers     = 2
	writerPause = 4 * time.Second
	readerPause = 8 * time.Second
	workspace   = "default"
	seeds       = 1_000 // unless the environment variable SYNC_SEEDS is set
	seedsRace   = 100   // with the race detector or -short
	lagSeeds    = 20_000
)

// TestSimulation checks a reader's copy after each page and each walk. After a page, the copy must
// reflect all changes before the page's synced_until, except as checkEntity allows. After a walk,
// the walk must have returned whatever existed when it began. One reader copies the entities of one
// type, and writers change types. Clock errors, delays of writes, indexes and queries, lost
// responses, repeated calls and pauses of readers are random within their bounds, and walks are
// interrupted and continued. At the end, the copy must have exactly the events that were not
// erased. No change of an entity may have
// an earlier stamp than the previous one.
func TestSimulation(t *testing.T) {
	const shards = 4
	n := seedCount(t)
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < n; seed += shards {
				if wrong := simulate(t, uint64(seed), rules{}); len(wrong) > 0 {
					t.Fatalf("seed %d: %v", seed, wrong)
				}
			}
		})
	}
}

// rules differ from those of the service. Their zero value does not.
type rules struct {
	settled     func(page, after record.Time) record.Time // from what the page says, and the clock after it was read
	syncedUntil func(q record.SyncQuery, next record.Cursor, settled record.Time) (record.Time, bool)
	bound       bool // whether a walk ends record.SyncLag before it began
}

func (r rules) of(q record.SyncQuery, next record.Cursor, settled, after record.Time) (until record.Time, fixed bool) {
	if r.settled != nil {
		settled = r.settled(settled, after)
	}
	if r.syncedUntil != nil {
		return r.syncedUntil(q, next, settled)
	}
	return q.SyncedUntil(next, settled)
}

func plus(t record.Time, d time.Duration) record.Time { return record.TimeOf(t.Time().Add(d)) }

// wrongRules are mistakes that the simulation must find.
var wrongRules = map[string]rules{
	"a walk ends before what changes a moment ago": {bound: true},
	"what is settled is read after the page":       {settled: func(_, after record.Time) record.Time { return plus(after, -record.SyncLag) }},
	"synced_until follows the position into the unsettled time": {syncedUntil: func(q record.SyncQuery, next record.Cursor, settled record.Time) (record.Time, bool) {
		if last, err := record.ParsePosition(string(next)); err == nil {
			return last.At, false
		}
		return q.SyncedUntil(next, settled)
	}},
	"synced_until falls back": {syncedUntil: func(q record.SyncQuery, next record.Cursor, settled record.Time) (record.Time, bool) {
		q.Cursor = ""
		return q.SyncedUntil(next, settled)
	}},
	"the lag is zero": shorter(record.SyncLag),
}

func shorter(d time.Duration) rules {
	return rules{settled: func(page, _ record.Time) record.Time { return plus(page, d) }}
}

// TestSimulationFindsMistakes shows that none of the rules is idle. With SYNC_SEEDS, the test runs
// for minutes and also tries a lag without record.WriteTimeout.
func TestSimulationFindsMistakes(t *testing.T) {
	all := maps.Clone(wrongRules)
	if os.Getenv("SYNC_SEEDS") != "" {
		all["the lag lacks the time of a write"] = shorter(record.WriteTimeout)
	}
	for name, wrong := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(lagSeeds) {
				if found := simulate(t, seed, wrong); len(found) > 0 {
					t.Logf("seed %d: %s", seed, found[0])
					return
				}
			}
			t.Errorf("no seed of %d finds it", lagSeeds)
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
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		engine: &engine{
			rng:     rng,
			delay:   []time.Duration{0, record.MaxIndexDelay}[rng.IntN(2)],
			slow:    []time.Duration{0, 100 * time.Millisecond, 20 * time.Second}[rng.IntN(3)],
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
func simulate(t *testing.T, seed uint64, by rules) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		var writing, reading sync.WaitGroup
		for i := range writers {
			writing.Go(func() { write(t, w, rand.New(rand.NewPCG(seed, uint64(1+i))), i) })
		}
		writing.Go(func() { writeBusy(t, w, rand.New(rand.NewPCG(seed, 50))) })
		stop := make(chan struct{})
		all := make([]*reader, readers)
		for i := range all {
			all[i] = &reader{
				world: w, rng: rand.New(rand.NewPCG(seed, uint64(100+i))), rules: by,
				entities: make(map[string]entity.Change), events: make(map[string]event.Event), erased: make(map[string]record.Time),
			}
			if i == 0 {
				all[i].typ = "x"
			}
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

// writeBusy changes an entity as often as the network allows.
func writeBusy(t *testing.T, w *world, rng *rand.Rand) {
	for n := range busyWrites {
		entities, _ := w.stores(t, extreme(rng, -record.MaxClockSkew, record.MaxClockSkew))
		d := entity.Draft{ID: "busy", Type: "x", Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, n))}
		entity.Upsert(t.Context(), entities, workspace, d.ID, []entity.Draft{d}, nil) // may be unavailable
		time.Sleep(between(rng, time.Second))
	}
}

// write makes random calls to an instance whose clock is off, and may repeat failed calls.
func write(t *testing.T, w *world, rng *rand.Rand, number int) {
	entities, events := w.stores(t, extreme(rng, -record.MaxClockSkew, record.MaxClockSkew))
	for n := range writesEach {
		time.Sleep(between(rng, writerPause))
		id := string(rune('a' + rng.IntN(3)))
		call := func() (err error) {
			_, _, err = entities.Write(t.Context(), workspace, entity.Erasure(id, record.TimeOf(time.Now()), time.Time{}))
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

// reader keeps a copy of the entities and events. Each page is read through an instance with another
// clock.
type reader struct {
	*world
	rules
	rng      *rand.Rand
	typ      string         // type of the entities in the copy; "" for all
	since    [2]record.Time // where the next walks start: since[0] for entities, since[1] for events
	left     [2]*walking    // the walks that were interrupted, if they can continue
	entities map[string]entity.Change
	events   map[string]event.Event
	erased   map[string]record.Time // latest erasure of each entity
	pages    []page
	wrong    []string
}

// walking is a walk that has not ended.
type walking struct {
	q        record.SyncQuery
	until    *record.Time           // as in the cursor
	bound    record.Time            // used only with rules.bound
	reads    int                    // how many queries there had been when the walk began
	existed  map[string]record.Time // stamps of what existed then
	returned map[string]record.Time // stamps that the walk has returned
}

// page is the copy after a page of a walk.
type page struct {
	until    record.Time // all changes before this time have been read
	read     time.Time
	entities map[string]entity.Change // nil for a walk of events
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
	walkPages(t, r, 0, mayStop, func(entities entity.Store, _ event.Store, q record.SyncQuery) (record.Page[entity.Change], error) {
		return entity.ListChanges(t.Context(), entities, workspace, entity.ChangeQuery{SyncQuery: q, Type: r.typ, IncludeDeleted: true}, time.Now())
	}, func(c entity.Change) {
		r.entities[c.ID] = c
		r.erased[c.ID] = maxTime(r.erased[c.ID], c.ErasedAt)
		maps.DeleteFunc(r.events, func(_ string, e event.Event) bool { return r.drops(e) })
	})
	walkPages(t, r, 1, mayStop, func(_ entity.Store, events event.Store, q record.SyncQuery) (record.Page[event.Change], error) {
		return event.ListChanges(t.Context(), events, workspace, event.ChangeQuery{SyncQuery: q})
	}, func(c event.Change) {
		if !r.drops(c.Event) {
			r.events[c.ID] = c.Event
		}
	})
}

// drops reports whether an erasure that r has read applies to e.
func (r *reader) drops(e event.Event) bool { return erases(r.erased[e.EntityID], e) }

// erases reports whether an entity's latest erasure applies to e. The zero time means no erasure.
func erases(at record.Time, e event.Event) bool {
	return at != record.Time{} && e.CreatedAt.Compare(at) <= 0
}

var tables = [2]string{"entities", "events"}

// begin begins a walk or continues one that was interrupted.
func (r *reader) begin(noun int) *walking {
	if w := r.left[noun]; w != nil && r.rng.IntN(2) == 0 {
		return w
	}
	w := &walking{
		q: record.SyncQuery{Since: r.since[noun]}, bound: record.TimeOf(time.Now().Add(-record.SyncLag)),
		existed: make(map[string]record.Time), returned: make(map[string]record.Time),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.reads = len(r.reads)
	for id, it := range r.tables[tables[noun]] {
		if p, err := record.ParsePosition(text(it, "change")); err == nil && p.At.Compare(w.q.Since) >= 0 {
			w.existed[id] = p.At
		}
	}
	return w
}

func walkPages[R interface{ SyncPosition() record.Position }](t *testing.T, r *reader, noun int, mayStop bool, list func(entity.Store, event.Store, record.SyncQuery) (record.Page[R], error), apply func(R)) {
	if !mayStop {
		r.left[noun] = nil
	}
	w := r.begin(noun)
	for {
		w.q.Limit = 1 + r.rng.IntN(4)
		skew := extreme(r.rng, -record.MaxClockSkew, record.MaxClockSkew)
		entities, events := r.stores(t, skew)
		found, err := list(entities, events, w.q)
		if err != nil {
			t.Error(err)
			return
		}
		if r.bound {
			found = record.Filter(found, func(c R) bool { return c.SyncPosition().At.Compare(w.bound) < 0 })
		}
		for _, c := range found.Records {
			apply(c)
			w.returned[c.SyncPosition().ID] = c.SyncPosition().At
		}
		until := w.until
		if until == nil {
			at, fixed := r.of(w.q, found.Next, found.Settled, record.TimeOf(time.Now().Add(skew)))
			if until = &at; fixed {
				w.until = until
			}
		}
		if w.q.Cursor != "" && until.Compare(r.since[noun]) < 0 && r.left[noun] == nil {
			r.wrong = append(r.wrong, fmt.Sprintf("synced_until fell back from %s to %s", r.since[noun], until))
		}
		r.since[noun] = *until
		r.notePage(noun, *until)
		w.q.Cursor = found.Next
		if found.Next == "" {
			break
		}
		if mayStop {
			if r.rng.IntN(10) == 0 {
				r.left[noun] = w
				return
			}
			time.Sleep(extreme(r.rng, 0, readerPause))
		}
	}
	r.left[noun] = nil
	r.checkWalk(noun, w)
}

func (r *reader) notePage(noun int, until record.Time) {
	p := page{until: until, read: time.Now(), events: maps.Clone(r.events)}
	if noun == 0 {
		p.entities, p.events = maps.Clone(r.entities), nil
	}
	r.pages = append(r.pages, p)
}

// checkWalk notes what existed when a walk began and is not in it, unless a query could not see it,
// because its index entry was moving.
func (r *reader) checkWalk(noun int, w *walking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range w.existed {
		if got, ok := w.returned[id]; ok && got.Compare(at) >= 0 {
			continue
		}
		moved := slices.ContainsFunc(r.reads[w.reads:], func(q read) bool {
			p, err := record.ParsePosition(q.seen[id])
			return q.table == tables[noun] && (err != nil || p.At.Compare(at) < 0)
		})
		if !moved {
			r.wrong = append(r.wrong, fmt.Sprintf("a walk of %s from %s lacks %s of %s", tables[noun], w.q.Since, id, at))
		}
	}
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

// check compares the copy after each page with the store as of page.until. The last walks began a
// minute after the last write, so their copies must reflect every write.
func (r *reader) check(s *world) (wrong []string) {
	wrong, last := r.wrong, 0
	for i, w := range r.pages {
		for id, history := range s.history {
			if w.entities == nil {
				break
			}
			if detail := w.checkEntity(w.entities[id], history, r.typ); detail != "" {
				wrong = append(wrong, fmt.Sprintf("page until %s, entity %s: %s", w.until, id, detail))
			}
		}
		for id, e := range s.events {
			if w.events == nil {
				break
			}
			last = i
			if _, copied := w.events[id]; !copied && e.CreatedAt.Compare(w.until) < 0 && !erases(s.erasedAt(e), e) {
				wrong = append(wrong, fmt.Sprintf("page until %s: lacks the event of %s", w.until, e.CreatedAt))
			}
		}
	}
	for id, e := range r.pages[last].events {
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

// checkEntity returns "" if the copy has the state of an entity as of p.until, or a newer one.
// Otherwise it says what is wrong. The copy may be older if the entity changed again before the
// page was read. In a copy of one type, entities of other types count as deleted.
func (p page) checkEntity(copied entity.Change, history []state, typ string) string {
	at := copied.SyncPosition().At
	var want state
	replaced := false
	for _, h := range history {
		h.deleted = h.deleted || typ != "" && h.typ != typ
		if h.at.Compare(p.until) < 0 {
			want = h
		} else {
			replaced = replaced || h.committed.Before(p.read)
		}
	}
	switch d := at.Compare(want.at); {
	case d > 0, d <= 0 && replaced, d == 0 && copied.Deleted == want.deleted:
		return ""
	}
	return fmt.Sprintf("the copy has the state of %s, the store that of %s", at, want.at)
}
