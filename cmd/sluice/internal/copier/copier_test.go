package copier

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Context() context.Context
	Fatal(args ...any)
}

var errKilled = errors.New("killed")

// fuse ends a run after a number of requests, as a kill does: before a request reaches the service,
// or before its response reaches the client. It also changes the source meanwhile.
type fuse struct {
	left   atomic.Int64
	lost   bool // whether the last request is carried out
	late   bool // whether it is sent only by sendLate
	kill   context.CancelCauseFunc
	during func()        // called before each request; may be nil
	path   string        // only these requests call during; "" for all
	drop   string        // path of a request that gets no response, and is late
	down   *atomic.Int64 // how many requests get no response; unless it is nil, clients do not try again

	sendLate func() // nil if no request is late
}

func (f *fuse) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.during != nil && (f.path == "" || f.path == r.URL.Path) {
		f.during()
	}
	if f.down != nil && f.down.Add(-1) >= 0 {
		return nil, errors.New("down")
	}
	if f.drop == r.URL.Path {
		f.drop = ""
		f.postpone(r)
		return nil, errors.New("no response")
	}
	left := f.left.Add(-1)
	if left == 0 && f.late {
		f.postpone(r)
		f.kill(errKilled)
		return nil, errKilled
	}
	if left > 0 || left == 0 && f.lost {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if left > 0 || err != nil {
			return resp, err
		}
		resp.Body.Close() //nolint:errcheck // the response is lost
	}
	f.kill(errKilled)
	return nil, errKilled
}

func (f *fuse) postpone(r *http.Request) {
	f.sendLate = func() {
		if resp, err := http.DefaultTransport.RoundTrip(r.WithContext(context.Background())); err == nil {
			resp.Body.Close() //nolint:errcheck // the response is lost
		}
	}
}

func (f *fuse) settle() {
	if f.sendLate != nil {
		f.sendLate()
		f.sendLate = nil
	}
}

// world is a source that changes at random, and a destination.
type world struct {
	t        *testing.T
	source   *client.Client // for changes and for reading
	to       *client.Client // for reading
	run      func(ctx context.Context, f *fuse, o Options) error
	state    string
	written  int
	erasures map[string]bool
	last     *fuse // of the last run
	waits    int   // how often runs have waited for late requests
}

func newWorld(t *testing.T, from, to *service) *world {
	t.Helper()
	return worldOf(t, from, to, to.workspace(t))
}

// worldOf is like newWorld, with a destination that has the key toKey.
func worldOf(t *testing.T, from, to *service, toKey string) *world {
	t.Helper()
	fromKey := from.workspace(t)
	w := &world{t: t, last: new(fuse), source: from.client(t, fromKey, nil), to: to.client(t, toKey, nil), state: filepath.Join(t.TempDir(), "copy"), erasures: make(map[string]bool)}
	w.run = func(ctx context.Context, f *fuse, o Options) error {
		ctx, kill := context.WithCancelCause(ctx)
		defer kill(nil)
		f.kill = kill
		o.State, o.Waiting = w.state, func() string { return "" }
		o.Sleep = func(context.Context, time.Duration) {
			w.waits++
			w.last.settle()
			f.settle()
		}
		defer func() {
			w.last.settle()
			w.last = f
		}()
		if o.Done == nil {
			o.Done = func(Result) {}
		}
		return Run(ctx, o, from.client(t, fromKey, f), to.connect(toKey, f), io.Discard)
	}
	return w
}

var (
	ids        = []string{"a", "b", "c", "d", "e", "f"}
	attributes = []string{`{}`, `{"n":null}`, `{"n":{"deep":null,"list":[null,{"x":null}]}}`, `{"n":1.50}`, `{"n":{"deep":{"er":1}}}`, `{"n":"text","html":"<&>"}`, `{"m":[]}`}
	types      = []string{"", "person", "robot"}
)

// change makes a random change in the source.
func (w *world) change(rt *rapid.T) {
	ctx, id := rt.Context(), rapid.SampledFrom(ids).Draw(rt, "id")
	w.written++
	var err error
	switch kind := rapid.SampledFrom([]string{"merge", "replace", "replace", "delete", "event", "event", "event", "erase"}).Draw(rt, "kind"); kind {
	case "event":
		at := record.TimeOf(time.UnixMilli(1_700_000_000_000 + rapid.Int64Range(0, 1e9).Draw(rt, "at")))
		d := event.Draft{ID: fmt.Sprint("v", w.written), Name: "n", EntityID: id, OccurredAt: &at, Attributes: []byte(rapid.SampledFrom(attributes).Draw(rt, "attributes"))}
		_, err = w.source.CreateEvents(ctx, []event.Draft{d, {ID: fmt.Sprint("w", w.written), Name: "of no entity"}})
	case "erase":
		w.erasures[id] = true
		_, err = w.source.EraseEntity(ctx, id)
	default:
		d := entity.Draft{ID: id, Deleted: kind == "delete"}
		if !d.Deleted {
			d = entity.Draft{ID: id, Type: rapid.SampledFrom(types).Draw(rt, "type"), Attributes: []byte(rapid.SampledFrom(attributes).Draw(rt, "attributes")), Replace: kind == "replace"}
		}
		_, err = w.source.UpsertEntities(ctx, []entity.Draft{d})
	}
	if err != nil {
		rt.Fatal(err)
	}
}

func (w *world) changes(rt *rapid.T) {
	for range rapid.IntRange(0, 12).Draw(rt, "changes") {
		w.change(rt)
	}
}

// complete waits for the erasures in the source, and lets a run complete.
func (w *world) complete(rt tester, o Options) {
	for id := range w.erasures {
		if _, err := w.source.AwaitErasureJob(rt.Context(), id, nil); err != nil {
			rt.Fatal(err)
		}
	}
	f := new(fuse)
	f.left.Store(1e9)
	if err := w.run(rt.Context(), f, o); err != nil {
		rt.Fatal(err)
	}
}

func (w *world) wantEqual(rt tester) {
	got, err := contents(rt.Context(), w.to)
	want, sourceErr := contents(rt.Context(), w.source)
	if err := errors.Join(err, sourceErr); err != nil {
		rt.Fatal(err)
	}
	var wrong []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] != want[id] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", id, got[id], want[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s is in the copy only: %q", id, got[id]))
		}
	}
	if wrong != nil {
		rt.Fatal(strings.Join(wrong, "\n"))
	}
}

// The source changes at random, before and during runs, which are killed at random. At the end, both
// sides are equal.
func TestACopyIsEqual(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (from, to *service){
		"bbolt": func(t *testing.T) (from, to *service) {
			return newBolt(t, time.Millisecond), newBolt(t, time.Millisecond)
		},
		"DynamoDB":          func(t *testing.T) (from, to *service) { s := newDynamo(t); return s, s },
		"bbolt to DynamoDB": func(t *testing.T) (from, to *service) { return newBolt(t, time.Millisecond), newDynamo(t) },
		"one file of bbolt": func(t *testing.T) (from, to *service) { s := newBolt(t, time.Millisecond); return s, s },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := open(t)
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(t, from, to)
				for range rapid.IntRange(1, 5).Draw(rt, "runs") {
					w.changes(rt)
					f := &fuse{lost: rapid.Bool().Draw(rt, "lost"), late: rapid.Bool().Draw(rt, "late"), during: func() {
						if rapid.IntRange(0, 3).Draw(rt, "meanwhile") == 0 {
							w.change(rt)
						}
					}}
					f.left.Store(rapid.Int64Range(1, 30).Draw(rt, "requests"))
					if err := w.run(rt.Context(), f, Options{PageSize: 3}); err != nil && !errors.Is(err, errKilled) {
						rt.Fatal(err)
					}
				}
				w.changes(rt)
				w.complete(rt, Options{PageSize: 3})
				w.wantEqual(rt)
			})
		})
	}
}

// A request of a run that was killed is carried out after an entity has been deleted, which the
// destination did not have yet.
func TestALateRequestUndoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	w.entity(entity.Draft{ID: "a"})
	w.loseRequest("/upsert_entities")
	w.entity(entity.Draft{ID: "a", Deleted: true})
	w.complete(t, Options{})
	w.wantEqual(t)
	if w.waits != 1 {
		t.Errorf("runs have waited %d times", w.waits)
	}
}

// The same, and the next run copies another source.
func TestALateRequestUndoesNothingOfAnotherCopy(t *testing.T) {
	t.Parallel()
	from, to := newBolt(t, time.Millisecond), newBolt(t, time.Millisecond)
	toKey := to.workspace(t)
	w, other := worldOf(t, from, to, toKey), worldOf(t, from, to, toKey)
	w.entity(entity.Draft{ID: "a"})
	w.loseRequest("/upsert_entities")
	other.state, other.last = w.state, w.last
	other.complete(t, Options{Force: true})
	other.wantEqual(t)
}

// A request for an erasure gets no response, and its repeat succeeds. What the source created after the
// erasure stays.
func TestALateErasureErasesNothingNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	w.event("before", "ada")
	w.complete(t, Options{})
	w.erase("ada")
	w.entity(entity.Draft{ID: "ada"})
	after := w.event("after", "ada")
	for i := 0; w.event(fmt.Sprint("later", i), "") == after; i++ { // so that the next round does not begin with ada
	}
	f := &fuse{drop: "/delete_entity"}
	f.left.Store(1e9)
	if err := w.run(t.Context(), f, Options{}); err != nil || w.waits != 1 {
		t.Fatalf("error %v, runs have waited %d times", err, w.waits)
	}
	w.complete(t, Options{})
	w.wantEqual(t)
}

// After Ctrl-C, a run gets the response to its last request, so the next one need not wait.
func TestAnInterruptedRunAwaitsItsLastRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	w.entity(entity.Draft{ID: "a"})
	f := &fuse{path: "/upsert_entities"}
	f.left.Store(1e9)
	f.during = func() { f.kill(errKilled) }
	if err := w.run(t.Context(), f, Options{}); !errors.Is(err, errKilled) {
		t.Fatalf("error %v", err)
	}
	w.wantEqual(t)
	w.complete(t, Options{})
	if w.waits != 0 {
		t.Errorf("runs have waited %d times", w.waits)
	}
}

// loseRequest kills a run at its first request for a path, which is late.
func (w *world) loseRequest(path string) {
	w.t.Helper()
	f := &fuse{late: true, path: path}
	f.left.Store(1e9)
	f.during = func() { f.left.Store(1) }
	if err := w.run(w.t.Context(), f, Options{}); !errors.Is(err, errKilled) || f.sendLate == nil {
		w.t.Fatalf("error %v", err)
	}
}

func (w *world) entity(d entity.Draft) {
	w.t.Helper()
	if _, err := w.source.UpsertEntities(w.t.Context(), []entity.Draft{d}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) event(id, entityID string) (createdAt record.Time) {
	w.t.Helper()
	results, err := w.source.CreateEvents(w.t.Context(), []event.Draft{{ID: id, Name: "n", EntityID: entityID}})
	if err != nil {
		w.t.Fatal(err)
	}
	return results[0].Record.CreatedAt
}

func (w *world) erase(id string) {
	w.t.Helper()
	w.erasures[id] = true
	if _, err := w.source.EraseEntity(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
}

// Events that the source has yet to erase are not copied.
func TestEventsThatWillBeErasedAreNotCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, 2*time.Second), newBolt(t, time.Millisecond))
	w.event("before", "ada")
	w.erase("ada")
	w.event("after", "ada")
	f := new(fuse)
	f.left.Store(1e9)
	if err := w.run(t.Context(), f, Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := contents(t.Context(), w.to); err != nil || len(got) != 1 || got["event after"] == "" {
		t.Errorf("the copy has %v, error %v", got, err)
	}
	w.complete(t, Options{})
	w.wantEqual(t)
}

// An erasure that a round reads only after events that are later than it is carried out too, and
// those events are sent again.
func TestEventsAfterAnErasureAreSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	w.event("before", "ada")
	w.complete(t, Options{})
	passed := false
	f := &fuse{path: "/event", during: func() {
		if passed {
			return
		}
		passed = true
		w.erase("ada")
		after := w.event("after", "ada")
		for i := 0; w.event(fmt.Sprint("later", i), "") == after; i++ {
		}
	}}
	f.left.Store(1e9)
	var results []Result
	for range 2 {
		if err := w.run(t.Context(), f, Options{Done: func(r Result) { results = append(results, r) }}); err != nil {
			t.Fatal(err)
		}
	}
	if len(results) != 2 || results[0].Erasures != 0 || results[1].Erasures != 1 {
		t.Errorf("%+v", results)
	}
	w.complete(t, Options{})
	w.wantEqual(t)
}

// With Force, what the source lacks is deleted, and everything else is replaced.
func TestADestinationWithRecordsNeedsForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	var both, other []entity.Draft
	for i := range 150 {
		both = append(both, entity.Draft{ID: fmt.Sprintf("e%03d", 2*i), Attributes: []byte(`{"a":null}`), Replace: true})
		other = append(other, entity.Draft{ID: fmt.Sprintf("e%03d", 2*i+1)}, entity.Draft{ID: fmt.Sprintf("e%03d", 2*i), Attributes: []byte(`{"b":1}`)})
	}
	for _, e := range []struct {
		c      *client.Client
		drafts []entity.Draft
	}{{w.source, both}, {w.to, other}} {
		for batch := range slices.Chunk(e.drafts, client.MaxBatch) {
			if _, err := e.c.UpsertEntities(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.event("same", "e001")
	if _, err := w.to.CreateEvents(t.Context(), []event.Draft{{ID: "same", Name: "other"}}); err != nil {
		t.Fatal(err)
	}
	f := new(fuse)
	f.left.Store(1e9)
	if err := w.run(t.Context(), f, Options{}); !errors.As(err, new(*journal.RefusedError)) || !strings.Contains(err.Error(), "has records") {
		t.Errorf("without force: %v", err)
	}
	var r Result
	if err := w.run(t.Context(), f, Options{Force: true, Done: func(done Result) { r = done }}); err != nil || r.Removed != 150 || !slices.Equal(r.Differ, []string{"same"}) {
		t.Errorf("with force: %+v, error %v", r, err)
	}
	want, err := contents(t.Context(), w.source)
	got, otherErr := contents(t.Context(), w.to)
	delete(want, "event same")
	delete(got, "event same")
	if err != nil || otherErr != nil || !maps.Equal(got, want) {
		t.Errorf("%d records, want %d; errors %v, %v", len(got), len(want), err, otherErr)
	}
}

// After more than 29 days, tombstones may be missing, so a run compares both sides.
func TestALongPauseCopiesEverythingAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	if _, err := w.source.UpsertEntities(t.Context(), []entity.Draft{{ID: "a"}, {ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	w.event("v", "a")
	w.complete(t, Options{})
	if _, err := w.to.UpsertEntities(t.Context(), []entity.Draft{{ID: "expired"}}); err != nil { // the source has no tombstone of it any more
		t.Fatal(err)
	}
	var r Result
	w.complete(t, Options{Done: func(done Result) { r = done }})
	if r.Removed != 0 {
		t.Errorf("a run soon after: %+v", r)
	}
	w.complete(t, Options{Now: func() time.Time { return time.Now().Add(30 * 24 * time.Hour) }, Done: func(done Result) { r = done }})
	if r.Removed != 1 || r.Entities != 2 || r.Events != 1 {
		t.Errorf("a run after 30 days: %+v", r)
	}
	w.wantEqual(t)
}

func TestACopyRefusesOtherWork(t *testing.T) {
	t.Parallel()
	from, to := newBolt(t, time.Millisecond), newBolt(t, time.Millisecond)
	w := newWorld(t, from, to)
	w.complete(t, Options{})
	other := newWorld(t, from, to)
	other.state = w.state
	f := new(fuse)
	f.left.Store(1e9)
	if err := other.run(t.Context(), f, Options{}); !errors.As(err, new(*journal.RefusedError)) || !strings.Contains(err.Error(), "belongs to a copy of the workspace") {
		t.Errorf("another source: %v", err)
	}
	key := from.workspace(t)
	err := Run(t.Context(), Options{State: filepath.Join(t.TempDir(), "copy")}, from.client(t, key, nil), from.connect(key, nil), io.Discard)
	if !errors.As(err, new(*journal.RefusedError)) || !strings.Contains(err.Error(), "are the same") {
		t.Errorf("to itself: %v", err)
	}
}

// Without a response, --follow goes on.
func TestRoundsGoOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	ctx, stop := context.WithCancelCause(t.Context())
	var down atomic.Int64
	f := &fuse{down: &down}
	f.left.Store(1e9)
	rounds := 0
	err := w.run(ctx, f, Options{Every: time.Millisecond, Done: func(Result) {
		switch rounds++; rounds {
		case 1:
			w.event("v", "")
			down.Store(3)
		case 2:
			stop(errKilled)
		}
	}})
	if !errors.Is(err, errKilled) || rounds != 2 || down.Load() >= 0 {
		t.Errorf("%d rounds, error %v", rounds, err)
	}
	w.wantEqual(t)
}

// What a round found before an outage is in the result of the round that continues it.
func TestAnOutageForgetsNoEventThatDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newBolt(t, time.Millisecond), newBolt(t, time.Millisecond))
	w.event("differs", "")
	w.event("later", "")
	if _, err := w.to.CreateEvents(t.Context(), []event.Draft{{ID: "differs", Name: "other"}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	var down atomic.Int64
	sent := 0
	f := &fuse{down: &down, path: "/create_events", during: func() {
		if sent++; sent == 2 {
			down.Store(1)
		}
	}}
	f.left.Store(1e9)
	var r Result
	err := w.run(ctx, f, Options{Force: true, PageSize: 1, Every: time.Millisecond, Done: func(done Result) {
		r = done
		stop(errKilled)
	}})
	if !errors.Is(err, errKilled) || sent < 3 || !slices.Equal(r.Differ, []string{"differs"}) {
		t.Errorf("%d requests, %+v, error %v", sent, r, err)
	}
}
