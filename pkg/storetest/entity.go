package storetest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

var (
	entityCreatedAt = recordAt("2026-01-02T15:04:05.678Z")
	updatedAt       = recordAt("2027-01-01T00:00:00Z")
)

var entityKind = recordKind[entity.Entity, entityStore]{
	Noun:       "entity",
	ID:         func(e entity.Entity) string { return e.ID },
	Attributes: func(e entity.Entity) record.Attributes { return e.Attributes },
	Plain:      plainEntity,
	Variant: func(id string, n int) entity.Entity {
		at := record.TimeOf(entityCreatedAt.Time().Add(time.Duration(1+n) * time.Second))
		return entity.Entity{ID: id, Type: fmt.Sprintf("variant %d", n), Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, n)), CreatedAt: at, UpdatedAt: at}
	},
	With: func(e entity.Entity, typ string, attributes record.Attributes) entity.Entity {
		e.Type, e.Attributes = typ, attributes
		return e
	},
	Extra: []entity.Entity{
		{ID: "first", Type: "account", Attributes: record.Attributes(`{}`), CreatedAt: first, UpdatedAt: first},
		{ID: "last", Type: "account", Attributes: record.Attributes(`{}`), CreatedAt: last, UpdatedAt: last},
	},
	Lists: func(ctx context.Context, s entityStore, workspace string) []recordList[entity.Entity] {
		return []recordList[entity.Entity]{listEntities(ctx, s, workspace, "")}
	},
	Others: func(ctx context.Context, s entityStore) map[string]error {
		_, replaceErr := s.Replace(ctx, workspace, plainEntity("a"), changed(plainEntity("a"), `{}`))
		_, countErr := s.Count(ctx, workspace, entity.Query{}, updatedAt)
		_, deleteErr := s.Delete(ctx, workspace, "a", updatedAt)
		_, changesErr := s.Changes(ctx, workspace, record.SyncQuery{Limit: 1})
		_, eraseErr := s.Erase(ctx, workspace, "a", updatedAt)
		_, eachErr := s.GetEach(ctx, workspace, []string{"a"})
		return map[string]error{"replace": replaceErr, "count": countErr, "delete": deleteErr, "changes": changesErr, "erase": eraseErr, "get each": eachErr}
	},
}

// OpenEntities creates an empty database and returns a function that opens it with a clock. Its
// stores are like instances of the service whose clocks differ.
type OpenEntities func(t *testing.T) func(entity.Clock) (entity.Store, error)

// entityStore is a store under test. Its methods that write take the time of the clock from
// their arguments.
type entityStore struct {
	entity.Store // its clock shows updatedAt
	open         func(entity.Clock) (entity.Store, error)
}

func (open OpenEntities) store(t *testing.T) entityStore {
	s := entityStore{open: open(t)}
	s.Store = s.at(updatedAt)
	return s
}

// at returns the store with a clock that shows the given time.
func (s entityStore) at(now record.Time) entity.Store {
	at, err := s.open(entity.Clock{Now: now.Time})
	if err != nil {
		panic(err)
	}
	return at
}

// Create creates e at e.CreatedAt.
func (s entityStore) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	c, created, err := s.at(e.CreatedAt).Write(ctx, workspace, entity.Write{Kind: entity.CreateWrite, Entity: e})
	return c.Entity, created, err
}

// Replace replaces old with e at e.UpdatedAt.
func (s entityStore) Replace(ctx context.Context, workspace string, old, e entity.Entity) (replaced bool, err error) {
	_, replaced, err = s.at(e.UpdatedAt).Write(ctx, workspace, entity.Write{Kind: entity.ReplaceWrite, Entity: e, Old: old})
	return replaced, err
}

func (s entityStore) Delete(ctx context.Context, workspace, id string, at record.Time) (deleted bool, err error) {
	_, deleted, err = s.at(at).Write(ctx, workspace, entity.Write{Kind: entity.DeleteWrite, Entity: entity.Entity{ID: id}})
	return deleted, err
}

func (s entityStore) Erase(ctx context.Context, workspace, id string, at record.Time) (entity.Change, error) {
	c, _, err := s.at(at).Write(ctx, workspace, entity.Write{Kind: entity.EraseWrite, Entity: entity.Entity{ID: id}})
	return c, err
}

// Entities checks that the stores of open fulfill the contract of entity.Store. Their lists
// must contain an entity as soon as it is created.
func Entities(t *testing.T, open OpenEntities) {
	entityKind.Run(t, open.store)
	runAll(t, open.store, []test[entityStore]{
		{Name: "a list is in byte order of id", Run: testEntityOrder},
		{Name: "a page starts after an id that does not exist", Run: testAfterAbsentID},
		{Name: "a list of a type has only the entities of that type", Run: testTypes},
		{Name: "a count includes the entities of a type that were created by a given time", Run: testEntityCount},
		{Name: "a replacement replaces the stored entity", Run: testEntityReplace},
		{Name: "a replacement of an entity that has changed does nothing", Run: testReplaceChanged},
		{Name: "a replacement may have another type", Run: testReplaceType},
		{Name: "concurrent updates lose nothing", Run: testConcurrentUpdates},
		{Name: "a deleted entity is only in the list of changes", Run: testEntityDelete},
		{Name: "an entity that is created again is later than its tombstone", Run: testCreateAgain},
		{Name: "changes are in order of time and contain only the latest change of each entity", Run: testChanges},
		{Name: "a list of changes contains only changes in the requested time range", Run: testChangesBetween},
		{Name: "a page of changes ends before it holds too many bytes", Run: testChangesBytes},
		{Name: "an erased entity leaves one tombstone, whether or not it existed", Run: testEntityErase},
		{Name: "the list of changes shows an erasure also after the entity was created again", Run: testEraseAndCreate},
		{Name: "the next change of an entity with a stamp of a wrong clock has the current time", Run: testClockFault},
		{Name: "entities are read together", Run: testGetEach},
	})
}

// plainEntity returns a simple entity.
func plainEntity(id string) entity.Entity {
	return entity.Entity{ID: id, Type: "account", Attributes: record.Attributes(`{"a":1}`), CreatedAt: entityCreatedAt, UpdatedAt: entityCreatedAt}
}

// changed returns e with other attributes and a later UpdatedAt.
func changed(e entity.Entity, attributes string) entity.Entity {
	e.Attributes, e.UpdatedAt = record.Attributes(attributes), updatedAt
	return e
}

// listEntities returns the list of the entities of a type, or of all entities if typ is empty.
func listEntities(ctx context.Context, s entityStore, workspace, typ string) recordList[entity.Entity] {
	return recordList[entity.Entity]{
		Compare: func(a, b entity.Entity) int { return cmp.Compare(a.ID, b.ID) },
		Page: func(after *entity.Entity, limit int) ([]entity.Entity, bool, error) {
			q := entity.Query{Type: typ, Limit: limit}
			if after != nil {
				q.AfterID = after.ID
			}
			page, err := s.List(ctx, workspace, q)
			return page.Records, page.More, err
		},
	}
}

// entityIDs returns the ids on one page of a list. The parameter after is an id, and the page starts
// after this id. If the parameter is empty, ids returns the ids on the first page.
func entityIDs(t *testing.T, l recordList[entity.Entity], after string, limit int) (ids []string, more bool) {
	t.Helper()
	var from *entity.Entity
	if after != "" {
		from = &entity.Entity{ID: after}
	}
	page, more := l.Read(t, from, limit)
	for _, e := range page {
		ids = append(ids, e.ID)
	}
	return ids, more
}

// testEntityOrder uses all ids of one character, and some longer ids.
func testEntityOrder(t *testing.T, s entityStore) {
	entities := []entity.Entity{plainEntity(strings.Repeat("z", record.MaxIDLength))}
	for c := range byte(128) {
		if record.CheckID(string(c)) == nil {
			entities = append(entities, plainEntity(string(c)))
		}
	}
	for _, id := range []string{"a-", "a.", "a0", "a:", "aA", "a_", "aa", "AB", "A0", "10", "9-9"} {
		entities = append(entities, plainEntity(id))
	}
	slices.Reverse(entities)
	entityKind.Fill(t, s, workspace, entities...)
	listEntities(t.Context(), s, workspace, "").Check(t, entities, 1, 7, len(entities), 200)
}

func testAfterAbsentID(t *testing.T, s entityStore) {
	entityKind.FillPlain(t, s, workspace, "b", "d", "f")
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
		if got, more := entityIDs(t, listEntities(t.Context(), s, workspace, ""), after, 10); !slices.Equal(got, want) || more {
			t.Errorf("after %q: got %v, more %v; want %v and no more", after, got, more, want)
		}
	}
}

func testTypes(t *testing.T, s entityStore) {
	types := []string{"a", "ab", "A", "a#b", "b", "a\x00b", " ", "<&>", strings.Repeat("😀", record.MaxNameLength)}
	byType := make(map[string][]entity.Entity)
	for i := range 5 * len(types) {
		e := plainEntity(fmt.Sprintf("%03d", i))
		e.Type = types[i%len(types)]
		byType[e.Type] = append(byType[e.Type], e)
		entityKind.Fill(t, s, workspace, e)
	}
	entityKind.FillPlain(t, s, "a", "000", "a")
	for typ, want := range byType {
		l := listEntities(t.Context(), s, workspace, typ)
		l.Check(t, want, 1, 2, 4, 5, 6, 200)
		if got, more := entityIDs(t, l, want[1].ID+"-", 1); !slices.Equal(got, []string{want[2].ID}) || !more {
			t.Errorf("type %q after an id that does not exist: %v, more %v", typ, got, more)
		}
	}
	for _, typ := range []string{"none", "account", "\x00"} {
		listEntities(t.Context(), s, workspace, typ).Check(t, nil, 10)
	}
	listEntities(t.Context(), s, "nobody", "a").Check(t, nil, 10)
}

func testEntityCount(t *testing.T, s entityStore) {
	times := []string{"2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z", "2026-01-02T00:00:00.000Z"}
	for i := range 12 {
		e := plainEntity(fmt.Sprintf("%02d", i))
		e.Type, e.CreatedAt = []string{"a", "b"}[i%2], recordAt(times[i/4])
		entityKind.Fill(t, s, workspace, e)
	}
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
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, recordAt(tt.until)); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}

func testEntityReplace(t *testing.T, s entityStore) {
	var want []entity.Entity
	for _, was := range entityKind.Samples() {
		entityKind.Fill(t, s, workspace, was)
		e := changed(was, `{"n":1.50,"html":"<&>"}`)
		if replaced, err := s.Replace(t.Context(), workspace, was, e); !replaced || err != nil {
			t.Errorf("%+v: replaced %v, error %v", was, replaced, err)
		}
		want = append(want, e)
	}
	entityKind.FillPlain(t, s, workspace, "beside")
	entityKind.FillPlain(t, s, "other", "plain")
	entityKind.Want(t, s, workspace, append(want, plainEntity("beside"))...)
	entityKind.Want(t, s, "other", plainEntity("plain"))
	typed := slices.DeleteFunc(append(want, plainEntity("beside")), func(e entity.Entity) bool { return e.Type != "account" })
	listEntities(t.Context(), s, workspace, "account").Check(t, typed, 200)
	if stored, created, err := s.Create(t.Context(), workspace, plainEntity("plain")); created || err != nil || string(stored.Attributes) != `{"n":1.50,"html":"<&>"}` {
		t.Errorf("create: created %v, error %v, stored %+v", created, err, stored)
	}
}

func testReplaceChanged(t *testing.T, s entityStore) {
	entityKind.FillPlain(t, s, workspace, "a", "gone")
	remove(t, s, "gone")
	later, earlier, tombstone := plainEntity("a"), plainEntity("a"), plainEntity("gone")
	later.UpdatedAt = updatedAt
	earlier.UpdatedAt = record.TimeOf(entityCreatedAt.Time().Add(-time.Millisecond))
	tombstone.UpdatedAt = updatedAt // the stamp of the tombstone
	for name, was := range map[string]entity.Entity{
		"a later update":      later,
		"an earlier update":   earlier,
		"a deleted entity":    plainEntity("gone"),
		"a tombstone's stamp": tombstone,
		"an unknown entity":   plainEntity("never"),
	} {
		if replaced, err := s.Replace(t.Context(), workspace, was, changed(was, `{"lost":true}`)); replaced || err != nil {
			t.Errorf("%s: replaced %v, error %v", name, replaced, err)
		}
	}
	if replaced, err := s.Replace(t.Context(), "nobody", plainEntity("a"), changed(plainEntity("a"), `{}`)); replaced || err != nil {
		t.Errorf("in a workspace without entities: replaced %v, error %v", replaced, err)
	}
	entityKind.Want(t, s, workspace, plainEntity("a"))
	entityKind.WantNotFound(t, s, workspace, "gone")
	entityKind.WantNotFound(t, s, workspace, "never")
	entityKind.WantNotFound(t, s, "nobody", "a")
}

func testReplaceType(t *testing.T, s entityStore) {
	entityKind.FillPlain(t, s, workspace, "a", "b")
	e := changed(plainEntity("a"), `{}`)
	e.Type = "person"
	if replaced, err := s.Replace(t.Context(), workspace, plainEntity("a"), e); !replaced || err != nil {
		t.Errorf("replaced %v, error %v", replaced, err)
	}
	entityKind.Want(t, s, workspace, e, plainEntity("b"))
	listEntities(t.Context(), s, workspace, "account").Check(t, []entity.Entity{plainEntity("b")}, 200)
	listEntities(t.Context(), s, workspace, "person").Check(t, []entity.Entity{e}, 200)
}

// testConcurrentUpdates increments a number in one entity from many goroutines.
func testConcurrentUpdates(t *testing.T, s entityStore) {
	const workers, each = 8, 5
	e := plainEntity("a")
	e.Attributes = counted(0)
	entityKind.Fill(t, s, workspace, e)
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
	if err != nil || string(got.Attributes) != string(counted(workers*each)) {
		t.Errorf("after %d updates the attributes are %s, error %v", workers*each, got.Attributes, err)
	}
}

func counted(n int) record.Attributes { return record.Attributes(fmt.Sprintf(`{"n":%d}`, n)) }

// increment tries once to add 1 to the number in the attributes of the entity "a".
func increment(t *testing.T, s entityStore) (replaced bool, err error) {
	was, err := s.Get(t.Context(), workspace, "a")
	if err != nil {
		return false, err
	}
	n := 0
	if _, err := fmt.Sscanf(string(was.Attributes), `{"n":%d}`, &n); err != nil {
		return false, err
	}
	e := was
	e.Attributes = counted(n + 1)
	return s.Replace(t.Context(), workspace, was, e)
}

func testEntityDelete(t *testing.T, s entityStore) {
	entityKind.FillPlain(t, s, workspace, "a", "b", "c")
	entityKind.FillPlain(t, s, "other", "b")
	remove(t, s, "b")
	for _, id := range []string{"b", "none"} {
		if deleted, err := s.Delete(t.Context(), workspace, id, entityAt(1)); deleted || err != nil {
			t.Errorf("delete %s: %v, error %v", id, deleted, err)
		}
	}
	if deleted, err := s.Delete(t.Context(), "nobody", "b", updatedAt); deleted || err != nil {
		t.Errorf("delete in a workspace without entities: %v, error %v", deleted, err)
	}
	tombstone := changesWith(t, s, "b")
	want := entity.Change{Entity: entity.Entity{ID: "b", Type: "account", CreatedAt: entityCreatedAt}, Deleted: true, DeletedAt: updatedAt}
	if len(tombstone) != 1 || !reflect.DeepEqual(tombstone[0], want) {
		t.Errorf("the changes of b are %+v, want %+v", tombstone, want)
	}
	entityKind.WantNotFound(t, s, workspace, "b")
	entityKind.Want(t, s, workspace, plainEntity("a"), plainEntity("c"))
	entityKind.Want(t, s, "other", plainEntity("b"))
	listEntities(t.Context(), s, workspace, plainEntity("b").Type).Check(t, []entity.Entity{plainEntity("a"), plainEntity("c")}, 10)
	listEntities(t.Context(), s, workspace, "").Check(t, []entity.Entity{plainEntity("a"), plainEntity("c")}, 2, 10)
	for _, typ := range []string{"", "account"} {
		if n, err := s.Count(t.Context(), workspace, entity.Query{Type: typ}, entityAt(10)); n != 2 || err != nil {
			t.Errorf("%d entities of type %q, error %v; want 2", n, typ, err)
		}
	}
	again := plainEntity("b")
	again.Type, again.CreatedAt, again.UpdatedAt = "other", entityAt(1), entityAt(1)
	entityKind.Fill(t, s, workspace, again) // the id can be used again
	listEntities(t.Context(), s, workspace, "other").Check(t, []entity.Entity{again}, 10)
	entityKind.Want(t, s, workspace, plainEntity("a"), again, plainEntity("c"))
}

// testGetEach reads more entities than a BatchGetItem takes keys, some of them twice.
func testGetEach(t *testing.T, s entityStore) {
	var ids []string
	want := make(map[string]entity.Entity)
	for i := range 130 {
		id := fmt.Sprintf("%03d", i)
		if ids = append(ids, id); i%3 == 0 {
			ids = append(ids, id)
			want[id] = plainEntity(id)
			entityKind.FillPlain(t, s, workspace, id)
		}
	}
	entityKind.FillPlain(t, s, workspace, "001", "beside")
	entityKind.FillPlain(t, s, "other", "002")
	remove(t, s, "001")
	for _, tt := range []struct {
		workspace string
		ids       []string
		want      map[string]entity.Entity
	}{
		{workspace, ids, want}, {workspace, nil, map[string]entity.Entity{}}, {"nobody", ids, map[string]entity.Entity{}},
	} {
		if got, err := s.GetEach(t.Context(), tt.workspace, tt.ids); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d ids of workspace %s: %d entities, error %v; want %d", len(tt.ids), tt.workspace, len(got), err, len(tt.want))
		}
	}
}
