package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// FindEvents checks that a store lists by name what a naive search through all events finds, while
// the index by name is added and removed, events are created and erased at random, and builds are
// killed. indexed holds the declarations that the store uses when it creates events. All checks share
// one store, each in its own workspace.
func FindEvents(t *testing.T, open func(t *testing.T, indexed *index.Current) (event.Store, index.Keeper)) {
	indexed := new(index.Current)
	s, keeper := open(t, indexed)
	checks, steps := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		f := &findingEvents{
			ctx: t.Context(), store: s, workspace: fmt.Sprintf("find-%d", checks),
			building: building{keeper: keeper, indexed: indexed, declarations: new(memoryIndexes)}, events: make(map[string]event.Event),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"declare": f.declare, "remove": f.remove,
			"work": f.work, "work more": f.work,
			"create": f.create, "create more": f.create,
			"erase": f.erase,
			"find":  f.find, "find more": f.find,
			"": func(*rapid.T) { steps++ },
		})
	})
	t.Logf("%d steps in %d checks", steps, checks)
}

// findingEvents is a store with an index of events and a model of its events.
type findingEvents struct {
	building
	ctx       context.Context
	store     event.Store
	workspace string
	events    map[string]event.Event
}

var (
	findNames    = []string{"paid", "Paid", "p#1", "a\x00b"}
	findEntities = []string{"", "e", "f"}
)

func (f *findingEvents) declare(rt *rapid.T) {
	if len(f.declarations.all) > 0 {
		return
	}
	if _, err := index.Add(f.ctx, f.declarations, index.EventNames(f.workspace)); err != nil {
		rt.Fatal(err)
	}
	f.load()
}

func (f *findingEvents) remove(rt *rapid.T) {
	if len(f.declarations.all) == 0 || rapid.Bool().Draw(rt, "keep") {
		return
	}
	if _, err := index.Remove(f.ctx, f.declarations, f.workspace, "", "name"); err != nil {
		rt.Fatal(err)
	}
	f.load()
}

func drawTime(rt *rapid.T, label string) *record.Time {
	return new(laterEvent(time.Duration(rapid.IntRange(0, 5).Draw(rt, label)) * time.Second))
}

func (f *findingEvents) create(rt *rapid.T) {
	d := event.Draft{
		ID: fmt.Sprint(rapid.IntRange(0, 99).Draw(rt, "id")), Name: rapid.SampledFrom(findNames).Draw(rt, "name"),
		EntityID: rapid.SampledFrom(findEntities).Draw(rt, "entity"), OccurredAt: drawTime(rt, "at"),
	}
	if _, exists := f.events[d.ID]; exists {
		return
	}
	stored, created, err := event.Create(f.ctx, f.store, f.workspace, d)
	if err != nil || !created {
		rt.Fatal(created, err)
	}
	f.events[d.ID] = stored
}

func (f *findingEvents) erase(rt *rapid.T) {
	id := rapid.SampledFrom(findEntities[1:]).Draw(rt, "entity")
	if _, err := f.store.Erase(f.ctx, f.workspace, event.Erasure{EntityID: id, Until: last, Limit: 1000}); err != nil {
		rt.Fatal(err)
	}
	for _, e := range f.events {
		if e.EntityID == id {
			delete(f.events, e.ID)
		}
	}
}

func (f *findingEvents) find(rt *rapid.T) {
	if len(f.declarations.all) == 0 || f.declarations.all[0].State != index.Ready {
		return
	}
	q := event.Query{Name: rapid.SampledFrom(findNames).Draw(rt, "name"), Ascending: rapid.Bool().Draw(rt, "ascending")}
	if rapid.Bool().Draw(rt, "bounded") {
		q.From, q.To = drawTime(rt, "from"), drawTime(rt, "to")
	}
	var want []string
	for _, e := range f.events {
		if e.Name == q.Name && (q.From == nil || e.OccurredAt.Compare(*q.From) >= 0 && e.OccurredAt.Compare(*q.To) < 0) {
			want = append(want, e.Position().String())
		}
	}
	slices.Sort(want)
	if !q.Ascending {
		slices.Reverse(want)
	}
	if n, err := f.store.Count(f.ctx, f.workspace, q, last); err != nil || int(n) != len(want) {
		rt.Fatalf("%d events counted, want %d; error %v", n, len(want), err)
	}
	var got []string
	for {
		q.Limit = rapid.IntRange(1, 4).Draw(rt, "limit")
		page, err := f.store.List(f.ctx, f.workspace, q)
		if err != nil || len(page.Records) > q.Limit {
			rt.Fatalf("a page of %d: %d, %v", q.Limit, len(page.Records), err)
		}
		for _, e := range page.Records {
			got = append(got, e.Position().String())
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("got %q, want %q", got, want)
	}
}

// building is what builds and removes the indexes of a random test.
type building struct {
	keeper       index.Keeper
	indexed      *index.Current
	declarations *memoryIndexes
}

// load makes the store use the stored declarations.
func (b building) load() { b.indexed.Store(index.NewSet(b.declarations.all)) }

// work takes a declaration a few steps further. The process may be killed in a step, after the keys
// were stored and before the declaration was.
func (b building) work(rt *rapid.T) {
	unfinished := slices.DeleteFunc(slices.Clone(b.declarations.all), func(d index.Declaration) bool { return d.State == index.Ready })
	if len(unfinished) == 0 {
		return
	}
	d := unfinished[rapid.IntRange(0, len(unfinished)-1).Draw(rt, "declaration")]
	builder := index.NewBuilder(b.declarations, b.keeper, index.BuilderConfig{Page: rapid.IntRange(1, 4).Draw(rt, "page")})
	for range rapid.IntRange(1, 9).Draw(rt, "steps") {
		b.declarations.lost = rapid.IntRange(0, 5).Draw(rt, "killed") == 0
		next, removed, err := builder.Step(rt.Context(), d)
		b.declarations.lost = false
		b.load()
		switch {
		case errors.Is(err, errKilled):
			continue
		case err != nil:
			rt.Fatalf("%s: %v", d.Name(), err)
		case removed || next.State == index.Ready:
			return
		}
		d = next
	}
}
