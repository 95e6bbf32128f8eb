// Package storetest is the suite that every entity.Store passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// workspace is where tests that need only one keep their entities.
const workspace = "default"

// Run checks that the stores that open returns keep the contract of
// entity.Store. Each call of open must return a store without entities, whose
// lists show an entity as soon as it is created.
func Run(t *testing.T, open func(t *testing.T) entity.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s entity.Store)
	}{
		{"an entity is read back as it was created", testReadBack},
		{"a repeated create changes nothing and returns what is stored", testRepeat},
		{"of concurrent creates of one id one wins and all return it", testOneWinner},
		{"workspaces are apart", testWorkspaces},
		{"what is not there is not found", testNotFound},
		{"a list is in byte order of id", testOrder},
		{"pages of any length hold every entity once", testPages},
		{"a page starts after an id that is not there", testAfterAbsentID},
		{"a page ends before it holds too many bytes", testPageBytes},
		{"a list of a type has the entities of that type alone", testTypes},
		{"a count has the entities of a type that are old enough", testCount},
		{"a replacement takes the place of what is stored", testReplace},
		{"a replacement of what has changed changes nothing", testReplaceChanged},
		{"concurrent updates lose nothing", testConcurrentUpdates},
		{"an entity that is deleted is gone from everywhere", testDelete},
		{"a cancelled context is an error and changes nothing", testCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// at is the instant of an RFC 3339 text.
func at(text string) record.Time {
	t, err := record.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return t
}

// plain is an entity of that id about which nothing is special.
func plain(id string) entity.Entity {
	created := at("2026-01-02T15:04:05.678Z")
	return entity.Entity{ID: id, Type: "account", Attributes: record.Attributes(`{"a":1}`), CreatedAt: created, UpdatedAt: created}
}

// fill creates entities, many at once: concurrent creates of different ids must
// not lose any.
func fill(t *testing.T, s entity.Store, workspace string, entities ...entity.Entity) {
	t.Helper()
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for _, e := range entities {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, created, err := s.Create(t.Context(), workspace, e); !created || err != nil {
				t.Errorf("create %s: created %v, error %v", e.ID, created, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// fillIDs creates a plain entity of each id.
func fillIDs(t *testing.T, s entity.Store, workspace string, ids ...string) {
	t.Helper()
	var entities []entity.Entity
	for _, id := range ids {
		entities = append(entities, plain(id))
	}
	fill(t, s, workspace, entities...)
}

// list returns one page.
func list(t *testing.T, s entity.Store, workspace string, q entity.Query) entity.Page {
	t.Helper()
	page, err := s.List(t.Context(), workspace, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	if len(page.Entities) > q.Limit {
		t.Fatalf("list %+v: %d entities", q, len(page.Entities))
	}
	if page.More && len(page.Entities) == 0 {
		t.Fatalf("list %+v: there are more, yet the page is empty", q)
	}
	if len(page.Entities) > 0 && page.Entities[0].ID <= q.AfterID {
		t.Fatalf("list %+v: the page starts at %s", q, page.Entities[0].ID)
	}
	return page
}

// walk returns the pages of a list up to the one that says that it is the
// last. It checks that More never promises too much.
func walk(t *testing.T, s entity.Store, workspace string, q entity.Query) (pages [][]entity.Entity) {
	t.Helper()
	for {
		page := list(t, s, workspace, q)
		if len(pages) > 0 && len(page.Entities) == 0 {
			t.Fatalf("list %+v: the page before promised more", q)
		}
		pages = append(pages, page.Entities)
		if !page.More {
			return pages
		}
		q.AfterID = page.Entities[len(page.Entities)-1].ID
	}
}

func ids(entities []entity.Entity) (ids []string) {
	for _, e := range entities {
		ids = append(ids, e.ID)
	}
	return ids
}

func testReadBack(t *testing.T, s entity.Store) {
	entities := map[string]entity.Entity{"plain": plain("plain")}
	add := func(id string, change func(e *entity.Entity)) {
		e := plain(id)
		change(&e)
		entities[id] = e
	}
	for i, attributes := range []string{
		`{}`,
		`{"n":12345678901234567890.10,"m":-0,"e":1E+400,"z":1.0}`,
		`{"html":"<a href='/?a&b'>&amp;</a>"}`,
		"{\"separators\":\"\u2028\u2029\",\"odd\":\"\ufeff\ufffe\uffff\x7f\"}",
		`{"escapes":"\u0041\u00e9\/\b\f\n\r\t\\\"\u0000\u2028\ud83d\ude00\u003c"}`,
		`{"composed":"é","decomposed":"é","emoji":"😀","":null}`,
		`{"b":1,"a":[true,false,{"b":2,"a":[]}]}`,
		strings.Repeat(`{"a":`, record.MaxDepth-1) + `{}` + strings.Repeat(`}`, record.MaxDepth-1),
	} {
		add(fmt.Sprintf("attributes-%d", i), func(e *entity.Entity) { e.Attributes = record.Attributes(attributes) })
	}
	for i, typ := range []string{"<&>", `"\`, "\x00\x1f\x7f", "\u2028\ufeff\ufffe", " ", strings.Repeat("😀", record.MaxNameLength)} {
		add(fmt.Sprintf("type-%d", i), func(e *entity.Entity) { e.Type = typ })
	}
	add("times", func(e *entity.Entity) {
		e.CreatedAt, e.UpdatedAt = at("0000-01-01T00:00:00Z"), at("9999-12-31T23:59:59.999Z")
	})
	add(strings.Repeat("x", record.MaxIDLength), func(*entity.Entity) {})

	for id, want := range entities {
		t.Run(id, func(t *testing.T) {
			if stored, created, err := s.Create(t.Context(), workspace, want); !created || err != nil || !reflect.DeepEqual(stored, want) {
				t.Errorf("create: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
			}
			if got, err := s.Get(t.Context(), workspace, id); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("get: error %v\n got %+v\nwant %+v", err, got, want)
			}
			if replaced, err := s.Replace(t.Context(), workspace, want, want); !replaced || err != nil {
				t.Errorf("replace with itself: replaced %v, error %v", replaced, err)
			}
			if stored, created, err := s.Create(t.Context(), workspace, plain(id)); created || err != nil || !reflect.DeepEqual(stored, want) {
				t.Errorf("create again: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
			}
		})
	}
	page := list(t, s, workspace, entity.Query{Limit: 200})
	if len(page.Entities) != len(entities) || page.More {
		t.Errorf("the list has %d entities, more %v; want %d and no more", len(page.Entities), page.More, len(entities))
	}
	for _, got := range page.Entities {
		if want := entities[got.ID]; !reflect.DeepEqual(got, want) {
			t.Errorf("list:\n got %+v\nwant %+v", got, want)
		}
	}
}

func testRepeat(t *testing.T, s entity.Store) {
	first := plain("a")
	fill(t, s, workspace, first)
	other := entity.Entity{ID: "a", Type: "other", Attributes: record.Attributes(`{"b":[2]}`), CreatedAt: at("2030-01-01T00:00:00Z"), UpdatedAt: at("2031-01-01T00:00:00Z")}
	for _, again := range []entity.Entity{first, other} {
		stored, created, err := s.Create(t.Context(), workspace, again)
		if created || err != nil || !reflect.DeepEqual(stored, first) {
			t.Errorf("create %+v: created %v, error %v, stored %+v", again, created, err, stored)
		}
	}
	if page := list(t, s, workspace, entity.Query{Limit: 10}); !reflect.DeepEqual(page, entity.Page{Entities: []entity.Entity{first}}) {
		t.Errorf("the list is %+v", page)
	}
}

func testOneWinner(t *testing.T, s entity.Store) {
	const workers = 24
	stored := make([]entity.Entity, workers)
	var winners atomic.Int64
	var winner atomic.Pointer[entity.Entity]
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			e := plain("a")
			e.Type = fmt.Sprintf("of worker %d", i)
			<-start
			got, created, err := s.Create(t.Context(), workspace, e)
			if err != nil {
				t.Error(err)
			}
			if created {
				winners.Add(1)
				winner.Store(&e)
			}
			stored[i] = got
		})
	}
	close(start)
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d creates say that they made the entity", winners.Load())
	}
	want := *winner.Load()
	for i, got := range stored {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("create %d returned %+v, want %+v", i, got, want)
		}
	}
	if got, err := s.Get(t.Context(), workspace, "a"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("get: %+v, error %v, want %+v", got, err, want)
	}
}

func testWorkspaces(t *testing.T, s entity.Store) {
	workspaces := []string{"a", "ab", "A", "a.b", "a:", "b", "entities", "é"}
	for _, w := range workspaces {
		own := plain("shared")
		own.Type = "of " + w
		fill(t, s, w, own, plain("only-"+w))
	}
	for _, w := range workspaces {
		if got, err := s.Get(t.Context(), w, "shared"); err != nil || got.Type != "of "+w {
			t.Errorf("workspace %s: got %+v, error %v", w, got, err)
		}
		if got, want := ids(list(t, s, w, entity.Query{Limit: 10}).Entities), []string{"only-" + w, "shared"}; !slices.Equal(got, want) {
			t.Errorf("workspace %s lists %v, want %v", w, got, want)
		}
	}
	wantNotFound(t, s, "a", "only-ab")
	wantNotFound(t, s, "ab", "only-a")
	if page := list(t, s, "abc", entity.Query{Limit: 10}); len(page.Entities) != 0 || page.More {
		t.Errorf("a workspace without entities lists %+v", page)
	}
}

func testNotFound(t *testing.T, s entity.Store) {
	wantNotFound(t, s, workspace, "a") // in a workspace without entities
	fillIDs(t, s, workspace, "ab", "b")
	for _, id := range []string{"a", "aba", "B", "b."} {
		wantNotFound(t, s, workspace, id)
	}
}

func wantNotFound(t *testing.T, s entity.Store, workspace, id string) {
	t.Helper()
	got, err := s.Get(t.Context(), workspace, id)
	if !isKind(err, record.NotFound) {
		t.Errorf("get %s of workspace %s: %+v, error %v; want kind NotFound", id, workspace, got, err)
	}
}

// everyCharacter is the ids of one character, and some longer ones, unsorted.
func everyCharacter() []string {
	var all []string
	for c := range byte(128) {
		if record.CheckID(string(c)) == nil {
			all = append(all, string(c))
		}
	}
	slices.Reverse(all)
	return append(all, "a-", "a.", "a0", "a:", "aA", "a_", "aa", "AB", "A0", "10", "9-9", strings.Repeat("z", record.MaxIDLength))
}

func testOrder(t *testing.T, s entity.Store) {
	want := everyCharacter()
	fillIDs(t, s, workspace, want...)
	slices.Sort(want)
	for _, limit := range []int{1, 7, len(want), 200} {
		if got := ids(slices.Concat(walk(t, s, workspace, entity.Query{Limit: limit})...)); !slices.Equal(got, want) {
			t.Errorf("limit %d:\n got %q\nwant %q", limit, got, want)
		}
	}
}

func testPages(t *testing.T, s entity.Store) {
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	fillIDs(t, s, workspace, want...)
	fillIDs(t, s, workspace+"-neighbour", "00", "99")
	for _, limit := range []int{1, 2, 3, 4, 5, 6, 11, 12, 13, 200} {
		pages := walk(t, s, workspace, entity.Query{Limit: limit})
		if got := ids(slices.Concat(pages...)); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v", limit, got)
		}
		if n := (len(want) + limit - 1) / limit; len(pages) != n {
			t.Errorf("limit %d: %d pages, want %d", limit, len(pages), n)
		}
	}
}

func testAfterAbsentID(t *testing.T, s entity.Store) {
	fillIDs(t, s, workspace, "b", "d", "f")
	for after, want := range map[string][]string{
		"":   {"b", "d", "f"},
		"a":  {"b", "d", "f"},
		"b":  {"d", "f"},
		"b-": {"d", "f"},
		"c":  {"d", "f"},
		"e":  {"f"},
		"f":  nil,
		"f0": nil,
		"z":  nil,
	} {
		if page := list(t, s, workspace, entity.Query{AfterID: after, Limit: 10}); !slices.Equal(ids(page.Entities), want) || page.More {
			t.Errorf("after %q: got %v, more %v; want %v and no more", after, ids(page.Entities), page.More, want)
		}
	}
}

func testPageBytes(t *testing.T, s entity.Store) {
	const count, recordBytes = 15, 250_000
	var want []string
	var entities []entity.Entity
	for i := range count {
		e := plain(fmt.Sprintf("%02d", i))
		e.Attributes = record.Attributes(`{"a":"` + strings.Repeat("<", recordBytes) + `"}`)
		want = append(want, e.ID)
		entities = append(entities, e)
	}
	fill(t, s, workspace, entities...)
	for _, limit := range []int{4, 5, 10, 15, 200} {
		pages := walk(t, s, workspace, entity.Query{Limit: limit})
		if got := ids(slices.Concat(pages...)); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v", limit, got)
		}
		for i, page := range pages {
			size := 0
			for _, e := range page {
				size += len(e.ID) + len(e.Type) + len(e.Attributes)
			}
			if size > record.MaxPageBytes {
				t.Errorf("limit %d: page %d has %d bytes", limit, i, size)
			}
			if i < len(pages)-1 && len(page) < limit && size < record.MaxPageBytes/2 {
				t.Errorf("limit %d: page %d ends after %d entities of %d bytes", limit, i, len(page), size)
			}
		}
	}
}

func testTypes(t *testing.T, s entity.Store) {
	types := []string{"a", "ab", "A", "a#b", "b", "a\x00b", " ", "<&>", strings.Repeat("😀", record.MaxNameLength)}
	want := make(map[string][]string)
	var entities []entity.Entity
	for i := range 5 * len(types) {
		e := plain(fmt.Sprintf("%03d", i))
		e.Type = types[i%len(types)]
		want[e.Type] = append(want[e.Type], e.ID)
		entities = append(entities, e)
	}
	fill(t, s, workspace, entities...)
	fill(t, s, "a", plain("000"), plain("a"))
	for typ, want := range want {
		for _, limit := range []int{1, 2, 4, 5, 6, 200} {
			pages := walk(t, s, workspace, entity.Query{Type: typ, Limit: limit})
			if got := ids(slices.Concat(pages...)); !slices.Equal(got, want) {
				t.Errorf("type %q, limit %d: got %v, want %v", typ, limit, got, want)
			}
			if n := (len(want) + limit - 1) / limit; len(pages) != n {
				t.Errorf("type %q, limit %d: %d pages, want %d", typ, limit, len(pages), n)
			}
		}
		page := list(t, s, workspace, entity.Query{Type: typ, AfterID: want[1] + "-", Limit: 1})
		if !reflect.DeepEqual(page.Entities, []entity.Entity{entityOf(entities, want[2])}) || !page.More {
			t.Errorf("type %q after an id that is not there: %+v", typ, page)
		}
	}
	for _, typ := range []string{"none", "account", "\x00"} {
		if page := list(t, s, workspace, entity.Query{Type: typ, Limit: 10}); len(page.Entities) != 0 || page.More {
			t.Errorf("type %q lists %+v", typ, page)
		}
	}
	if page := list(t, s, "nobody", entity.Query{Type: "a", Limit: 10}); len(page.Entities) != 0 {
		t.Errorf("a workspace without entities lists %+v", page)
	}
}

func testCount(t *testing.T, s entity.Store) {
	times := []string{"2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z", "2026-01-02T00:00:00.000Z"}
	var entities []entity.Entity
	for i := range 12 {
		e := plain(fmt.Sprintf("%02d", i))
		e.Type, e.CreatedAt = []string{"a", "b"}[i%2], at(times[i/4])
		entities = append(entities, e)
	}
	fill(t, s, workspace, entities...)
	for _, tt := range []struct {
		workspace, until string
		q                entity.Query
		want             int64
	}{
		{workspace, "2025-12-31T23:59:59.999Z", entity.Query{}, 0},
		{workspace, times[0], entity.Query{}, 4},
		{workspace, times[1], entity.Query{}, 8},
		{workspace, times[2], entity.Query{}, 12},
		{workspace, times[1], entity.Query{Type: "a"}, 4},
		{workspace, times[2], entity.Query{Type: "b", AfterID: "09", Limit: 1}, 6},
		{workspace, times[2], entity.Query{Type: "c"}, 0},
		{"nobody", times[2], entity.Query{}, 0},
	} {
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, at(tt.until)); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}

func entityOf(entities []entity.Entity, id string) entity.Entity {
	return entities[slices.IndexFunc(entities, func(e entity.Entity) bool { return e.ID == id })]
}

// changed returns e with other attributes and a later time of the latest change.
func changed(e entity.Entity, attributes string) entity.Entity {
	e.Attributes, e.UpdatedAt = record.Attributes(attributes), at("2027-01-01T00:00:00Z")
	return e
}

func testReplace(t *testing.T, s entity.Store) {
	fillIDs(t, s, workspace, "a", "b")
	fillIDs(t, s, "other", "a")
	was, want := plain("a"), changed(plain("a"), `{"n":1.50,"html":"<&>"}`)
	for _, was := range []entity.Entity{was, want} { // the second time nothing changes
		if replaced, err := s.Replace(t.Context(), workspace, was, want); !replaced || err != nil {
			t.Errorf("replaced %v, error %v", replaced, err)
		}
	}
	if got, err := s.Get(t.Context(), workspace, "a"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("get: %+v, error %v, want %+v", got, err, want)
	}
	for _, typ := range []string{"", want.Type} {
		page := list(t, s, workspace, entity.Query{Type: typ, Limit: 10})
		if !reflect.DeepEqual(page.Entities, []entity.Entity{want, plain("b")}) {
			t.Errorf("the list of type %q is %+v", typ, page.Entities)
		}
	}
	if got, err := s.Get(t.Context(), "other", "a"); err != nil || !reflect.DeepEqual(got, plain("a")) {
		t.Errorf("the other workspace has %+v, error %v", got, err)
	}
	if stored, created, err := s.Create(t.Context(), workspace, plain("a")); created || err != nil || !reflect.DeepEqual(stored, want) {
		t.Errorf("create: created %v, error %v, stored %+v", created, err, stored)
	}
}

func testReplaceChanged(t *testing.T, s entity.Store) {
	fillIDs(t, s, workspace, "a", "gone")
	if err := s.Delete(t.Context(), workspace, "gone"); err != nil {
		t.Fatal(err)
	}
	later := plain("a")
	later.UpdatedAt = at("2026-01-02T15:04:05.679Z")
	created := plain("a")
	created.CreatedAt = at("2026-01-02T15:04:05.677Z")
	for name, was := range map[string]entity.Entity{
		"other attributes":         changed(plain("a"), `{"a":2}`),
		"the same, written apart":  changed(plain("a"), `{"a":1.0}`),
		"another update":           later,
		"another creation":         created,
		"an entity that is gone":   plain("gone"),
		"an entity that never was": plain("never"),
	} {
		if replaced, err := s.Replace(t.Context(), workspace, was, changed(was, `{"lost":true}`)); replaced || err != nil {
			t.Errorf("%s: replaced %v, error %v", name, replaced, err)
		}
	}
	if replaced, err := s.Replace(t.Context(), "nobody", plain("a"), changed(plain("a"), `{}`)); replaced || err != nil {
		t.Errorf("in a workspace without entities: replaced %v, error %v", replaced, err)
	}
	if got := list(t, s, workspace, entity.Query{Limit: 10}).Entities; !reflect.DeepEqual(got, []entity.Entity{plain("a")}) {
		t.Errorf("the list is %+v", got)
	}
	wantNotFound(t, s, workspace, "gone")
	wantNotFound(t, s, workspace, "never")
	wantNotFound(t, s, "nobody", "a")
}

// testConcurrentUpdates counts up one entity from many goroutines.
func testConcurrentUpdates(t *testing.T, s entity.Store) {
	const workers, each = 8, 5
	e := plain("a")
	e.Attributes = record.Attributes("0")
	fill(t, s, workspace, e)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := 0; n < each; {
				replaced, err := increment(t, s)
				if err != nil {
					t.Error(err)
					return
				}
				if replaced {
					n++
				}
			}
		})
	}
	wg.Wait()
	got, err := s.Get(t.Context(), workspace, "a")
	if want := strconv.Itoa(workers * each); err != nil || string(got.Attributes) != want {
		t.Errorf("after %s updates the entity holds %s, error %v", want, got.Attributes, err)
	}
}

// increment tries once to add 1 to the number that the entity "a" holds.
func increment(t *testing.T, s entity.Store) (replaced bool, err error) {
	was, err := s.Get(t.Context(), workspace, "a")
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(string(was.Attributes))
	if err != nil {
		return false, err
	}
	e := was
	e.Attributes = record.Attributes(strconv.Itoa(n + 1))
	return s.Replace(t.Context(), workspace, was, e)
}

func testDelete(t *testing.T, s entity.Store) {
	fillIDs(t, s, workspace, "a", "b", "c")
	fillIDs(t, s, "other", "b")
	for _, id := range []string{"b", "b", "none"} {
		if err := s.Delete(t.Context(), workspace, id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
	}
	if err := s.Delete(t.Context(), "nobody", "b"); err != nil {
		t.Errorf("delete in a workspace without entities: %v", err)
	}
	wantNotFound(t, s, workspace, "b")
	for _, typ := range []string{"", plain("b").Type} {
		if got := ids(list(t, s, workspace, entity.Query{Type: typ, Limit: 10}).Entities); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("the list of type %q has %v", typ, got)
		}
	}
	if replaced, err := s.Replace(t.Context(), workspace, plain("b"), changed(plain("b"), `{}`)); replaced || err != nil {
		t.Errorf("replacement of what was deleted: %v, error %v", replaced, err)
	}
	if _, err := s.Get(t.Context(), "other", "b"); err != nil {
		t.Errorf("the other workspace: %v", err)
	}
	again := plain("b")
	again.Type = "other"
	fill(t, s, workspace, again) // as new
	if page := list(t, s, workspace, entity.Query{Type: "other", Limit: 10}); !reflect.DeepEqual(page.Entities, []entity.Entity{again}) {
		t.Errorf("created again, the list is %+v", page.Entities)
	}
}

func isKind(err error, kind record.Kind) bool {
	var failure *record.Error
	return errors.As(err, &failure) && failure.Kind == kind
}

func testCancelled(t *testing.T, s entity.Store) {
	fillIDs(t, s, workspace, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, createErr := s.Create(ctx, workspace, plain("b"))
	_, getErr := s.Get(ctx, workspace, "a")
	_, listErr := s.List(ctx, workspace, entity.Query{Limit: 1})
	_, replaceErr := s.Replace(ctx, workspace, plain("a"), changed(plain("a"), `{}`))
	_, countErr := s.Count(ctx, workspace, entity.Query{}, at("2027-01-01T00:00:00Z"))
	deleteErr := s.Delete(ctx, workspace, "a")
	for call, err := range map[string]error{"create": createErr, "get": getErr, "list": listErr, "count": countErr, "replace": replaceErr, "delete": deleteErr} {
		if !isKind(err, record.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want kind Unavailable because of %v", call, err, context.Canceled)
		}
	}
	wantNotFound(t, s, workspace, "b")
	if got, err := s.Get(t.Context(), workspace, "a"); err != nil || !reflect.DeepEqual(got, plain("a")) {
		t.Errorf("get: %+v, error %v", got, err)
	}
}
