package storetest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	noun:       "entity",
	id:         func(e entity.Entity) string { return e.ID },
	createdAt:  func(e entity.Entity) record.Time { return e.CreatedAt },
	attributes: func(e entity.Entity) record.Attributes { return e.Attributes },
	plain:      plainEntity,
	variant: func(id string, n int) entity.Entity {
		at := record.TimeOf(entityCreatedAt.Time().Add(time.Duration(1+n) * time.Second))
		return entity.Entity{ID: id, Type: fmt.Sprintf("variant %d", n), Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, n)), Revision: 1, CreatedAt: at, UpdatedAt: at}
	},
	with: func(e entity.Entity, typ string, attributes record.Attributes) entity.Entity {
		e.Type, e.Attributes = typ, attributes
		return e
	},
	extra: []entity.Entity{
		{ID: "first", Type: "account", Attributes: record.Attributes(`{}`), Revision: 1, CreatedAt: first, UpdatedAt: first},
		{ID: "last", Type: "account", Attributes: record.Attributes(`{}`), Revision: 1, CreatedAt: last, UpdatedAt: last},
	},
	lists: func(ctx context.Context, s entityStore, workspace string) []recordList[entity.Entity] {
		return []recordList[entity.Entity]{listEntities(ctx, s, workspace, "")}
	},
	others: func(ctx context.Context, s entityStore) map[string]error {
		_, replaceErr := s.replace(ctx, workspace, plainEntity("a"), changed(plainEntity("a"), `{}`))
		_, countErr := s.Count(ctx, workspace, entity.Query{}, updatedAt)
		_, deleteErr := s.delete(ctx, workspace, "a", updatedAt)
		_, changesErr := s.Changes(ctx, workspace, record.SyncQuery{Limit: 1})
		_, eraseErr := s.erase(ctx, workspace, "a", updatedAt, updatedAt)
		_, eachErr := s.GetEach(ctx, workspace, []string{"a"})
		return map[string]error{"replace": replaceErr, "count": countErr, "delete": deleteErr, "changes": changesErr, "erase": eraseErr, "get each": eachErr}
	},
}

// OpenEntities creates an empty database and returns a function that opens it with a clock.
// Stores opened with different clocks simulate instances of the service.
type OpenEntities func(t *testing.T) func(entity.Clock) (entity.Store, error)

// entityStore has write methods that take the time of the write.
type entityStore struct {
	entity.Store // its clock shows updatedAt
	open         func(entity.Clock) (entity.Store, error)
}

func (open OpenEntities) store(t *testing.T) entityStore {
	s := entityStore{open: open(t)}
	s.Store = s.at(updatedAt)
	return s
}

func (s entityStore) at(now record.Time) entity.Store {
	at, err := s.open(entity.Clock{Now: now.Time})
	if err != nil {
		panic(err)
	}
	return at
}

// create stores e as if the time were e.CreatedAt.
func (s entityStore) create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	c, created, err := s.at(e.CreatedAt).Write(ctx, workspace, entity.Creation(e))
	return c.Entity, created, err
}

// replace replaces old with e, if the entity still has old's revision, as if the time were
// e.UpdatedAt.
func (s entityStore) replace(ctx context.Context, workspace string, old, e entity.Entity) (replaced bool, err error) {
	_, replaced, err = s.at(e.UpdatedAt).Write(ctx, workspace, replacement(old, e))
	if record.CodeOf(err) == record.Mismatch {
		return false, nil
	}
	return replaced, err
}

func replacement(old, e entity.Entity) entity.Write {
	return entity.Write{
		Op: entity.UpdateWrite, ID: e.ID, If: &entity.Condition{Revision: old.Revision},
		Edit: func(latest entity.Change, _ record.Time) (next entity.Change, ok bool, err error) {
			return entity.Change{Entity: e, ErasedAt: latest.ErasedAt}, true, nil
		},
	}
}

func (s entityStore) delete(ctx context.Context, workspace, id string, at record.Time) (deleted bool, err error) {
	_, deleted, err = s.at(at).Write(ctx, workspace, entity.Deletion(id, nil))
	return deleted, err
}

func (s entityStore) erase(ctx context.Context, workspace, id string, at, erased record.Time) (entity.Change, error) {
	c, _, err := s.at(at).Write(ctx, workspace, entity.Erasure(id, erased, time.Time{}))
	return c, err
}

// Entities tests an entity.Store. Its lists must contain an entity as soon as it is created.
func Entities(t *testing.T, open OpenEntities) {
	entityKind.run(t, open.store)
	runAll(t, open.store, []test[entityStore]{
		{name: "a list is in byte order of id", run: testEntityOrder},
		{name: "a page may end at an entity that is deleted before the next page", run: testAfterDeleted},
		{name: "a cursor that no page can have is rejected", run: testBadEntityCursors},
		{name: "a list of a type has only the entities of that type", run: testTypes},
		{name: "a count includes the entities of a type that were created by a given time", run: testEntityCount},
		{name: "a replacement replaces the stored entity", run: testEntityReplace},
		{name: "a replacement of an entity that has changed does nothing", run: testReplaceChanged},
		{name: "a replacement may have another type", run: testReplaceType},
		{name: "concurrent updates lose nothing", run: testConcurrentUpdates},
		{name: "a change with a condition is made only to an entity that meets it", run: testConditions},
		{name: "a deleted entity is only in the list of changes", run: testEntityDelete},
		{name: "an upsert deletes and replaces as the other writes do", run: testUpsert},
		{name: "an entity that is created again is later than its tombstone", run: testCreateAgain},
		{name: "changes are in order of time and contain only the latest change of each entity", run: testChanges},
		{name: "a list of changes contains only changes from the requested time on", run: testChangesSince},
		{name: "a list of the changes of one type contains the other changes as gone", run: testFilteredChanges},
		{name: "a page of changes ends before it holds too many bytes", run: testChangesBytes},
		{name: "an erased entity leaves one tombstone, whether or not it existed", run: testEntityErase},
		{name: "the list of changes shows an erasure also after the entity was created again", run: testEraseAndCreate},
		{name: "entities are read together", run: testGetEach},
	})
}

func plainEntity(id string) entity.Entity {
	e := entity.Entity{ID: id, Type: "account", Attributes: record.Attributes(`{"a":1}`), Revision: 1, CreatedAt: entityCreatedAt, UpdatedAt: entityCreatedAt}
	fillTexts(e.Members(nil))
	return e
}

// changed returns e with other attributes, the next revision and a later UpdatedAt.
func changed(e entity.Entity, attributes string) entity.Entity {
	e.Attributes, e.Revision, e.UpdatedAt = record.Attributes(attributes), e.Revision+1, updatedAt
	return e
}

// listEntities lists all entities if typ is empty.
func listEntities(ctx context.Context, s entityStore, workspace, typ string) recordList[entity.Entity] {
	return recordList[entity.Entity]{
		compare: func(a, b entity.Entity) int { return cmp.Compare(a.ID, b.ID) },
		page: func(cursor record.Cursor, limit int) (record.Page[entity.Entity], error) {
			return s.List(ctx, workspace, entity.Query{Type: typ, Cursor: cursor, Limit: limit})
		},
	}
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
	entityKind.fill(t, s, workspace, entities...)
	listEntities(t.Context(), s, workspace, "").check(t, entities, 1, 7, len(entities), 200)
}

// testAfterDeleted deletes the entity at which pages end.
func testAfterDeleted(t *testing.T, s entityStore) {
	entityKind.fillPlain(t, s, workspace, "b", "d", "f")
	all, ofType := listEntities(t.Context(), s, workspace, ""), listEntities(t.Context(), s, workspace, plainEntity("").Type)
	_, afterAll := all.read(t, "", 2)
	_, afterType := ofType.read(t, "", 2)
	remove(t, s, "d")
	all.check(t, []entity.Entity{plainEntity("b"), plainEntity("f")}, 10)
	for _, page := range [][][]entity.Entity{all.walk(t, afterAll, 10), ofType.walk(t, afterType, 10)} {
		if got := slices.Concat(page...); !reflect.DeepEqual(got, []entity.Entity{plainEntity("f")}) {
			t.Errorf("after d there is %+v, want f", got)
		}
	}
}

func testBadEntityCursors(t *testing.T, s entityStore) {
	wantBadCursors(t, notIDs, func(cursor record.Cursor) error {
		_, err := s.List(t.Context(), workspace, entity.Query{Cursor: cursor, Limit: 1})
		return err
	})
	wantBadCursors(t, notPositions, func(cursor record.Cursor) error {
		_, err := s.Changes(t.Context(), workspace, record.SyncQuery{Cursor: cursor, Limit: 1})
		return err
	})
}

func testTypes(t *testing.T, s entityStore) {
	types := []string{"a", "ab", "A", "a#b", "b", "a\x00b", " ", "<&>", strings.Repeat("😀", record.MaxNameLength)}
	byType := make(map[string][]entity.Entity)
	for i := range 5 * len(types) {
		e := plainEntity(fmt.Sprintf("%03d", i))
		e.Type = types[i%len(types)]
		byType[e.Type] = append(byType[e.Type], e)
		entityKind.fill(t, s, workspace, e)
	}
	entityKind.fillPlain(t, s, "a", "000", "a")
	for typ, want := range byType {
		l := listEntities(t.Context(), s, workspace, typ)
		l.check(t, want, 1, 2, 4, 5, 6, 200)
	}
	for _, typ := range []string{"none", "account", "\x00"} {
		listEntities(t.Context(), s, workspace, typ).check(t, nil, 10)
	}
	listEntities(t.Context(), s, "nobody", "a").check(t, nil, 10)
}

func testEntityCount(t *testing.T, s entityStore) {
	times := []string{"2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z", "2026-01-02T00:00:00.000Z"}
	for i := range 12 {
		e := plainEntity(fmt.Sprintf("%02d", i))
		e.Type, e.CreatedAt = []string{"a", "b"}[i%2], recordAt(times[i/4])
		entityKind.fill(t, s, workspace, e)
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
		{workspace, times[2], entity.Query{Type: "b", Cursor: "ignored#", Limit: 1}, 6},
		{workspace, times[2], entity.Query{Type: "c"}, 0},
		{"nobody", times[2], entity.Query{}, 0},
	} {
		if n, err := s.Count(t.Context(), tt.workspace, tt.q, recordAt(tt.until)); n != tt.want || err != nil {
			t.Errorf("workspace %s, %+v until %s: %d, error %v; want %d", tt.workspace, tt.q, tt.until, n, err, tt.want)
		}
	}
}

func testEntityDelete(t *testing.T, s entityStore) {
	entityKind.fillPlain(t, s, workspace, "a", "b", "c")
	entityKind.fillPlain(t, s, "other", "b")
	remove(t, s, "b")
	for _, id := range []string{"b", "none"} {
		if deleted, err := s.delete(t.Context(), workspace, id, entityAt(1)); deleted || err != nil {
			t.Errorf("delete %s: %v, error %v", id, deleted, err)
		}
	}
	if deleted, err := s.delete(t.Context(), "nobody", "b", updatedAt); deleted || err != nil {
		t.Errorf("delete in a workspace without entities: %v, error %v", deleted, err)
	}
	tombstone := changesWith(t, s, "b")
	want := entity.Change{Entity: entity.Entity{ID: "b", Type: "account", Revision: 2, CreatedAt: entityCreatedAt}, Deleted: true, DeletedAt: updatedAt}
	if len(tombstone) != 1 || !reflect.DeepEqual(tombstone[0], want) {
		t.Errorf("the changes of b are %+v, want %+v", tombstone, want)
	}
	entityKind.wantNotFound(t, s, workspace, "b")
	entityKind.want(t, s, workspace, plainEntity("a"), plainEntity("c"))
	entityKind.want(t, s, "other", plainEntity("b"))
	listEntities(t.Context(), s, workspace, plainEntity("b").Type).check(t, []entity.Entity{plainEntity("a"), plainEntity("c")}, 10)
	listEntities(t.Context(), s, workspace, "").check(t, []entity.Entity{plainEntity("a"), plainEntity("c")}, 2, 10)
	for _, typ := range []string{"", "account"} {
		if n, err := s.Count(t.Context(), workspace, entity.Query{Type: typ}, entityAt(10)); n != 2 || err != nil {
			t.Errorf("%d entities of type %q, error %v; want 2", n, typ, err)
		}
	}
	again := plainEntity("b")
	again.Type, again.Revision, again.CreatedAt, again.UpdatedAt = "other", 3, entityAt(1), entityAt(1)
	entityKind.fill(t, s, workspace, again) // the id can be used again
	listEntities(t.Context(), s, workspace, "other").check(t, []entity.Entity{again}, 10)
	entityKind.want(t, s, workspace, plainEntity("a"), again, plainEntity("c"))
}

// testGetEach requests more entities than fit into a BatchGetItem call, some of them twice.
func testGetEach(t *testing.T, s entityStore) {
	var ids []string
	want := make(map[string]entity.Change)
	for i := range 130 {
		id := fmt.Sprintf("%03d", i)
		if ids = append(ids, id); i%3 == 0 {
			ids = append(ids, id)
			want[id] = entity.Change{Entity: plainEntity(id)}
			entityKind.fillPlain(t, s, workspace, id)
		}
	}
	entityKind.fillPlain(t, s, workspace, "001", "beside")
	entityKind.fillPlain(t, s, "other", "002")
	remove(t, s, "001")
	want["001"] = changesWith(t, s, "001")[0]
	for _, tt := range []struct {
		workspace string
		ids       []string
		want      map[string]entity.Change
	}{
		{workspace, ids, want}, {workspace, nil, map[string]entity.Change{}}, {"nobody", ids, map[string]entity.Change{}},
	} {
		if got, err := s.GetEach(t.Context(), tt.workspace, tt.ids); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d ids of workspace %s: %d entities, error %v; want %d", len(tt.ids), tt.workspace, len(got), err, len(tt.want))
		}
	}
}
