package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/syncwait"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// syncDuration is how long TestCopiesFollowTheService writes, unless the environment variable
// SYNC_DURATION sets another duration, such as 5m.
const syncDuration = 8 * time.Second

// TestCopiesFollowTheService runs writers and readers against several servers on the same
// DynamoDB tables. The writers lose a third of the responses. Each reader walks through the
// changes repeatedly. After each complete walk, its copy must have the changes before
// synced_until, as follower.check describes. At the end, the copy must have all records.
func TestCopiesFollowTheService(t *testing.T) {
	t.Parallel()
	const servers, writers, readers = 3, 8, 3
	duration := syncDuration
	if text := os.Getenv("SYNC_DURATION"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"EVENT_SHARDS=4", "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900"}
	for variable, table := range map[string]string{"COUNTERS_TABLE": "CountersTable", "ENTITIES_TABLE": "EntitiesTable", "EVENTS_TABLE": "EventsTable"} {
		env = append(env, variable+"="+dynamolocal.Table(t, table))
	}
	var lossy, clients []*client.Client
	for range servers {
		s := startIn(t, append(env, "DATA_DIR="+t.TempDir()), "--dynamodb", dynamolocal.Endpoint(t))
		url, _ := loseAThird(t, s.url)
		lossy, clients = append(lossy, newClient(t, url)), append(clients, newClient(t, s.url))
	}

	w := &written{states: make(map[string][]syncState), events: make(map[string]record.Time)}
	end := time.Now().Add(duration)
	var writing, reading sync.WaitGroup
	for i := range writers {
		writing.Go(func() { w.write(t, lossy, i, end) })
	}
	stop := make(chan struct{})
	followers := make([]*follower, readers)
	for i := range followers {
		f := &follower{clients: clients, entities: make(map[string]entity.Change), events: make(map[string]record.Time)}
		followers[i] = f
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(time.Second)):
					f.walkEntities(t, true)
					f.walkEvents(t, true)
				}
			}
		})
	}
	writing.Wait()
	syncwait.Await(t, clients[0], time.Now())
	close(stop)
	reading.Wait()
	for i, f := range followers {
		f.walkEntities(t, false)
		f.walkEvents(t, false)
		f.check(t, w)
		f.checkAll(t, clients[0], w)
		t.Logf("reader %d: %d walks, %d entities and tombstones, %d events", i, len(f.walks), len(f.entities), len(f.events))
	}
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Config{MaxTries: 50, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// syncState is an entity's state after a change made between from and to.
type syncState struct {
	from, to record.Time
	deleted  bool
}

// written is what the writers stored.
type written struct {
	mu     sync.Mutex
	states map[string][]syncState // by entity id
	events map[string]record.Time // created_at by event id
}

// write makes changes to a few entities that no other writer changes, and creates events.
func (w *written) write(t *testing.T, clients []*client.Client, number int, end time.Time) {
	for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
		c, id := clients[rand.IntN(len(clients))], fmt.Sprintf("w%d-%d", number, rand.IntN(5))
		w.mu.Lock()
		states := w.states[id]
		w.mu.Unlock()
		exists := len(states) > 0 && !states[len(states)-1].deleted
		var e entity.Entity
		var err error
		state := syncState{from: record.TimeOf(time.Now())}
		switch {
		case rand.IntN(3) == 0:
			var stored event.Event
			stored, _, err = c.CreateEvent(t.Context(), event.Draft{Name: "n", OccurredAt: &record.Time{}})
			w.mu.Lock()
			w.events[stored.ID] = stored.CreatedAt
			w.mu.Unlock()
			id = ""
		case !exists:
			e, _, err = c.CreateEntity(t.Context(), entity.Draft{ID: id})
			state.from, state.to = e.UpdatedAt, e.UpdatedAt
		case rand.IntN(3) == 0:
			err = c.DeleteEntity(t.Context(), id)
			state.to, state.deleted = record.TimeOf(time.Now()), true
		default:
			e, err = c.UpdateEntity(t.Context(), id, record.Attributes(fmt.Sprintf(`{"n":%d}`, n)))
			state.from, state.to = e.UpdatedAt, e.UpdatedAt
		}
		if err != nil {
			t.Error(err)
			return
		}
		if id == "" {
			continue
		}
		if len(states) > 0 && !state.deleted && state.from.Compare(states[len(states)-1].from) <= 0 {
			t.Errorf("entity %s: changed at %s after a change at %s", id, state.from, states[len(states)-1].from)
		}
		w.mu.Lock()
		w.states[id] = append(states, state)
		w.mu.Unlock()
		pause(t, 20*time.Millisecond)
	}
}

// follower keeps a copy of all records. It reads each page of changes from a random server.
type follower struct {
	clients                    []*client.Client
	entitiesSince, eventsSince record.Time
	entities                   map[string]entity.Change
	events                     map[string]record.Time
	walks                      []completedWalk
}

// completedWalk records the state of the copy after a complete walk.
type completedWalk struct {
	until    record.Time
	ended    record.Time
	entities map[string]syncState // nil for a walk of events
	events   map[string]record.Time
}

func pause(t *testing.T, maxPause time.Duration) {
	select {
	case <-time.After(rand.N(maxPause)):
	case <-t.Context().Done():
	}
}

func (f *follower) client() *client.Client { return f.clients[rand.IntN(len(f.clients))] }

// follow reads pages until the walk is complete. If mayStop is true, it pauses between pages and
// sometimes stops early.
func follow[R any](t *testing.T, mayStop bool, page func(cursor string) (client.Page[R], error), apply func(R)) (until record.Time, complete bool) {
	for cursor := ""; ; {
		p, err := page(cursor)
		if err != nil {
			t.Error(err)
			return until, false
		}
		until = *p.SyncedUntil
		for _, r := range p.Data {
			apply(r)
		}
		if p.NextCursor == nil {
			return until, true
		}
		cursor = *p.NextCursor
		if mayStop {
			if rand.IntN(20) == 0 {
				return until, false
			}
			pause(t, 200*time.Millisecond)
		}
	}
}

func (f *follower) walkEntities(t *testing.T, mayStop bool) {
	q := client.EntityChangeQuery{UpdatedSince: f.entitiesSince, IncludeDeleted: true, Limit: 1 + rand.IntN(20)}
	until, complete := follow(t, mayStop, func(cursor string) (client.Page[entity.Change], error) {
		q.Cursor = cursor
		return f.client().ListEntityChanges(t.Context(), q)
	}, func(c entity.Change) { f.entities[c.ID] = c })
	if !complete {
		return
	}
	walk := completedWalk{until: until, ended: record.TimeOf(time.Now()), entities: make(map[string]syncState)}
	for id, c := range f.entities {
		walk.entities[id] = syncState{from: c.SyncPosition().At, deleted: c.Deleted}
	}
	f.entitiesSince, f.walks = until, append(f.walks, walk)
}

func (f *follower) walkEvents(t *testing.T, mayStop bool) {
	q := client.EventChangeQuery{CreatedSince: f.eventsSince, Limit: 1 + rand.IntN(20)}
	until, complete := follow(t, mayStop, func(cursor string) (client.Page[event.Event], error) {
		q.Cursor = cursor
		return f.client().ListEventChanges(t.Context(), q)
	}, func(e event.Event) { f.events[e.ID] = e.CreatedAt })
	if !complete {
		return
	}
	walk := completedWalk{until: until, events: maps.Clone(f.events)}
	f.eventsSince, f.walks = until, append(f.walks, walk)
}

// check compares the copies after complete walks with what the writers stored. A copy must have
// every change before walk.until, except for entities that changed again before the walk ended.
// It may also have later changes, for example from an incomplete walk.
func (f *follower) check(t *testing.T, w *written) {
	for _, walk := range f.walks {
		if walk.events != nil {
			for id, at := range w.events {
				if _, copied := walk.events[id]; !copied && at.Compare(walk.until) < 0 {
					t.Errorf("the copy until %s lacks the event of %s", walk.until, at)
				}
			}
			continue
		}
		for id, states := range w.states {
			var want syncState
			overwritten := false
			for _, s := range states {
				if s.to.Compare(walk.until) < 0 {
					want = s
				} else {
					overwritten = overwritten || s.from.Compare(walk.ended) <= 0
				}
			}
			got := walk.entities[id]
			switch {
			case got.from.Compare(want.from) < 0 && !overwritten:
				t.Errorf("the copy until %s has %s as of %s, the store as of %s", walk.until, id, got.from, want.from)
			case got.from.Compare(want.to) == 0 && got.deleted != want.deleted:
				t.Errorf("the copy until %s has %s deleted %v", walk.until, id, got.deleted)
			}
		}
	}
}

// checkAll compares the final copy with all records in the service.
func (f *follower) checkAll(t *testing.T, c *client.Client, w *written) {
	stored := make(map[string]entity.Entity)
	for e, err := range c.Entities(t.Context(), client.EntityQuery{Limit: 200}) {
		if err != nil {
			t.Fatal(err)
		}
		stored[e.ID] = e
	}
	copied := make(map[string]entity.Entity)
	for id, c := range f.entities {
		if !c.Deleted {
			copied[id] = c.Entity
		} else if _, err := f.client().GetEntity(t.Context(), id); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("get %s, which is deleted: %v", id, err)
		}
	}
	if !reflect.DeepEqual(copied, stored) {
		t.Errorf("the copy is\n%v, the store\n%v", copied, stored)
	}
	if len(f.entities) != len(w.states) || !reflect.DeepEqual(f.events, w.events) {
		t.Errorf("the copy has %d entities and tombstones and %d events, the store %d and %d", len(f.entities), len(f.events), len(w.states), len(w.events))
	}
}

// The changes are read at the default limits. The environment variables SYNC_ENTITIES and
// SYNC_CHANGES set how many entities exist and how many of them change.
func TestChangesAmongManyEntitiesAreReadInSeconds(t *testing.T) {
	t.Parallel()
	total, changed := 5000, 300
	for variable, n := range map[string]*int{"SYNC_ENTITIES": &total, "SYNC_CHANGES": &changed} {
		if text := os.Getenv(variable); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	began := record.TimeOf(time.Now().Add(-time.Minute)) // long enough ago to be before synced_until
	fillEntities(t, dir, total, changed, began)
	s := start(t, dir)
	c, err := client.New(s.url, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	read := 0
	_, complete := follow(t, false, func(cursor string) (client.Page[entity.Change], error) {
		return c.ListEntityChanges(t.Context(), client.EntityChangeQuery{UpdatedSince: began, Limit: 200, Cursor: cursor})
	}, func(entity.Change) { read++ })
	took := time.Since(start)
	t.Logf("%d changes of %d entities were read in %s", read, total, took)
	if !complete || read != changed || took > 10*time.Second {
		t.Errorf("%d changes were read in %s, want %d in 10s", read, took, changed)
	}
}

// fillEntities stores n entities in the data file in dir, and updates nUpdated of them at
// updatedAt, an hour after their creation. No server may be using the file.
func fillEntities(t *testing.T, dir string, n, nUpdated int, updatedAt record.Time) {
	t.Helper()
	type stores struct{ before, after *bolt.Entities } // the same store with two clocks
	open := func(db *bbolt.DB) (s stores, err error) {
		if s.before, err = bolt.NewEntities(db, entity.Clock{Now: func() time.Time { return updatedAt.Time().Add(-time.Hour) }}, nil); err == nil {
			s.after, err = bolt.NewEntities(db, entity.Clock{Now: updatedAt.Time}, nil)
		}
		return s, err
	}
	fill(t, dir, n, open, func(s stores, i int) error {
		id := fmt.Sprintf("%07d", i)
		d := entity.Draft{ID: id, Type: "person", Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, i))}
		_, _, err := entity.Create(t.Context(), s.before, "default", d)
		if err == nil && i%(n/nUpdated) == 0 && i/(n/nUpdated) < nUpdated {
			_, err = entity.Update(t.Context(), s.after, "default", id, record.Attributes(`{"changed":true}`))
		}
		return err
	})
}
