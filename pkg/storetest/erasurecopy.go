package storetest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// testErasuresAndCopies changes, erases and creates entities and their events again at random, while
// requests and runs die, and clients copy everything by walks.
func testErasuresAndCopies(t *testing.T, s *erasures) {
	checks, erased := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		m := &erasureModel{
			erasures: s, ctx: t.Context(), workspace: fmt.Sprintf("erase-%d", checks),
			events: make(map[string]event.Event), requested: make(map[string]record.Time), ended: make(map[string]record.Time),
		}
		for range 2 {
			m.copies = append(m.copies, &erasureCopy{entities: make(map[string]entity.Entity), events: make(map[string]event.Event), erased: make(map[string]record.Time)})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"upsert": m.upsert, "delete": m.delete, "clock": m.clock, "erase": m.erase, "die": m.die, "run": m.run,
			"event": m.event, "event 2": m.event, "event 3": m.event, "page": m.page, "page 2": m.page, "page 3": m.page,
		})
		s.dies = -1
		for _, id := range slices.Sorted(maps.Keys(m.requested)) {
			m.finish(rt, id)
		}
		m.check(rt)
		erased += m.erased
	})
	t.Logf("%d sequences, %d erasures", checks, erased)
}

// erasureModel knows what a workspace must hold.
type erasureModel struct {
	*erasures
	ctx       context.Context
	workspace string
	events    map[string]event.Event // those that no ended job has erased, by id
	requested map[string]record.Time // Until of the latest job of each entity
	ended     map[string]record.Time // likewise, of those that have ended
	copies    []*erasureCopy
	created   int // number of events
	erased    int // number of jobs that have ended
}

func drawEntity(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "entity")
}

func (m *erasureModel) upsert(rt *rapid.T) {
	d := entity.Draft{ID: drawEntity(rt), Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 9).Draw(rt, "n")))}
	if err := entity.Upsert(m.ctx, m.Entities, m.workspace, d.ID, []entity.Draft{d}, nil).Errs[0]; err != nil {
		rt.Fatalf("upsert: %v", err)
	}
}

func (m *erasureModel) delete(rt *rapid.T) {
	if err := entity.Delete(m.ctx, m.Entities, m.workspace, drawEntity(rt), nil); err != nil && record.CodeOf(err) != record.NotFound {
		rt.Fatalf("delete: %v", err)
	}
}

// clock lets time pass, and goes to an instance with another clock. Clocks differ little, because a
// request waits for the difference.
func (m *erasureModel) clock(rt *rapid.T) {
	m.passed += rapid.SampledFrom([]time.Duration{0, 0, time.Second, 2*record.MaxClockSkew + time.Second}).Draw(rt, "passed")
	m.ahead = rapid.SampledFrom([]time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond}).Draw(rt, "ahead")
}

func (m *erasureModel) nextEvent() string {
	m.created++
	return fmt.Sprintf("e%d", m.created)
}

func (m *erasureModel) event(rt *rapid.T) {
	e := m.erasures.event(m.ctx, rt, m.workspace, m.nextEvent(), drawEntity(rt))
	m.events[e.ID] = e
}

func (m *erasureModel) erase(rt *rapid.T) {
	id := drawEntity(rt)
	j, later := m.erasures.erase(m.ctx, rt, m.workspace, id, m.nextEvent())
	m.requested[id], m.events[later.ID] = j.Until, later
}

// die requests an erasure that dies before the tombstone.
func (m *erasureModel) die(rt *rapid.T) {
	if m.Dying == nil {
		return
	}
	id := drawEntity(rt)
	if _, err := m.Dying.Request(m.ctx, m.workspace, id); err == nil {
		rt.Fatalf("the request did not die")
	}
	j, err := m.Jobs.Get(m.ctx, m.workspace, id)
	if err != nil {
		rt.Fatalf("get job: %v", err)
	}
	m.requested[id] = j.Until
}

// run runs the job of an entity. The run may die.
func (m *erasureModel) run(rt *rapid.T) {
	id := drawEntity(rt)
	if _, ok := m.requested[id]; !ok {
		return
	}
	m.dies = rapid.SampledFrom([]int{-1, 1}).Draw(rt, "dies")
	m.finish(rt, id)
	m.dies = -1
}

func (m *erasureModel) finish(rt *rapid.T, id string) {
	if !m.erasures.run(m.ctx, rt, m.workspace, id) || m.ended[id] == m.requested[id] {
		return
	}
	m.erased++
	m.ended[id] = m.requested[id]
	maps.DeleteFunc(m.events, func(_ string, e event.Event) bool { return covers(m.ended, e) })
}

// covers reports whether an erasure of e's entity applies to e.
func covers(erased map[string]record.Time, e event.Event) bool {
	at, ok := erased[e.EntityID]
	return ok && e.CreatedAt.Compare(at) <= 0
}

func (m *erasureModel) page(rt *rapid.T) {
	rapid.SampledFrom(m.copies).Draw(rt, "copy").page(rt, m, rapid.IntRange(1, 4).Draw(rt, "limit"))
}

// check compares the stores with the model, and the copies, after another walk, with the stores.
func (m *erasureModel) check(rt *rapid.T) {
	live, err := m.Entities.List(m.ctx, m.workspace, entity.Query{Limit: 200})
	if err != nil {
		rt.Fatalf("list entities: %v", err)
	}
	entities := make(map[string]entity.Entity)
	for _, e := range live.Records {
		entities[e.ID] = e
	}
	stored, err := m.Events.List(m.ctx, m.workspace, event.Query{Limit: 200})
	if err != nil {
		rt.Fatalf("list events: %v", err)
	}
	events := make(map[string]event.Event)
	for _, e := range stored.Records {
		events[e.ID] = e
	}
	if !reflect.DeepEqual(events, m.events) {
		rt.Fatalf("the store has the events %v, want %v", events, m.events)
	}
	for i, c := range m.copies {
		c.noun, c.walk = 0, nil
		for ended := 0; ended < 2; {
			if c.page(rt, m, 10); c.walk == nil {
				ended++
			}
		}
		if !reflect.DeepEqual(c.entities, entities) || !reflect.DeepEqual(c.events, events) {
			rt.Fatalf("copy %d has %v and %v, the store %v and %v", i, c.entities, c.events, entities, events)
		}
	}
}

// erasureCopy is a client that keeps a copy, as docs/incremental-sync.md tells it to. It walks
// through entities and events in turn.
type erasureCopy struct {
	entities map[string]entity.Entity
	events   map[string]event.Event
	erased   map[string]record.Time
	since    [2]record.Time
	noun     int // 0 for entities, 1 for events
	walk     *erasureWalk
}

// erasureWalk is a walk that has not ended.
type erasureWalk struct {
	q     record.SyncQuery
	until record.Time
	fixed bool
}

// page reads the next page of the walk, or the first page of a new one.
func (c *erasureCopy) page(rt *rapid.T, m *erasureModel, limit int) {
	if c.walk == nil {
		c.walk = &erasureWalk{q: record.SyncQuery{Since: c.since[c.noun]}}
	}
	w := c.walk
	w.q.Limit = limit
	var next record.Cursor
	var settled record.Time
	if c.noun == 0 {
		page, err := entity.ListChanges(m.ctx, m.Entities, m.workspace, entity.ChangeQuery{SyncQuery: w.q, IncludeDeleted: true}, m.now())
		if err != nil {
			rt.Fatalf("list changes: %v", err)
		}
		for _, e := range page.Records {
			c.applyEntity(e)
		}
		next, settled = page.Next, page.Settled
	} else {
		page, err := event.ListChanges(m.ctx, m.Events, m.workspace, event.ChangeQuery{SyncQuery: w.q})
		if err != nil {
			rt.Fatalf("list new events: %v", err)
		}
		for _, e := range page.Records {
			if covers(m.ended, e.Event) {
				rt.Fatalf("%s of %s was read after the end of a job up to %s", e.ID, e.CreatedAt, m.ended[e.EntityID])
			}
			if !covers(c.erased, e.Event) {
				c.events[e.ID] = e.Event
			}
		}
		next, settled = page.Next, page.Settled
	}
	if !w.fixed {
		w.until, w.fixed = w.q.SyncedUntil(next, settled)
	}
	if w.q.Cursor = next; next == "" {
		c.since[c.noun], c.noun, c.walk = w.until, 1-c.noun, nil
	}
}

func (c *erasureCopy) applyEntity(e entity.Change) {
	if e.Live() {
		c.entities[e.ID] = e.Entity
	} else {
		delete(c.entities, e.ID)
	}
	if e.Erased() && c.erased[e.ID].Compare(e.ErasedAt) < 0 {
		c.erased[e.ID] = e.ErasedAt
	}
	maps.DeleteFunc(c.events, func(_ string, e event.Event) bool { return covers(c.erased, e) })
}
