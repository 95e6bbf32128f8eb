package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func testEntityReplace(t *testing.T, s entityStore) {
	var want []entity.Entity
	for _, was := range entityKind.samples() {
		entityKind.fill(t, s, workspace, was)
		e := changed(was, `{"n":1.50,"html":"<&>"}`)
		if replaced, err := s.replace(t.Context(), workspace, was, e); !replaced || err != nil {
			t.Errorf("%+v: replaced %v, error %v", was, replaced, err)
		}
		want = append(want, e)
	}
	entityKind.fillPlain(t, s, workspace, "beside")
	entityKind.fillPlain(t, s, "other", "plain")
	entityKind.want(t, s, workspace, append(want, plainEntity("beside"))...)
	entityKind.want(t, s, "other", plainEntity("plain"))
	typed := slices.DeleteFunc(append(want, plainEntity("beside")), func(e entity.Entity) bool { return e.Type != "account" })
	listEntities(t.Context(), s, workspace, "account").check(t, typed, 200)
	if stored, created, err := s.create(t.Context(), workspace, plainEntity("plain")); created || err != nil || string(stored.Attributes) != `{"n":1.50,"html":"<&>"}` {
		t.Errorf("create: created %v, error %v, stored %+v", created, err, stored)
	}
}

func testReplaceChanged(t *testing.T, s entityStore) {
	entityKind.fillPlain(t, s, workspace, "a", "gone")
	remove(t, s, "gone")
	later, tombstone := plainEntity("a"), plainEntity("gone")
	later.Revision, tombstone.Revision = 2, 2
	for name, was := range map[string]entity.Entity{
		"another revision":  later,
		"a deleted entity":  plainEntity("gone"),
		"a tombstone":       tombstone,
		"an unknown entity": plainEntity("never"),
	} {
		if replaced, err := s.replace(t.Context(), workspace, was, changed(was, `{"lost":true}`)); replaced || err != nil {
			t.Errorf("%s: replaced %v, error %v", name, replaced, err)
		}
	}
	if replaced, err := s.replace(t.Context(), "nobody", plainEntity("a"), changed(plainEntity("a"), `{}`)); replaced || err != nil {
		t.Errorf("in a workspace without entities: replaced %v, error %v", replaced, err)
	}
	entityKind.want(t, s, workspace, plainEntity("a"))
	entityKind.wantNotFound(t, s, workspace, "gone")
	entityKind.wantNotFound(t, s, workspace, "never")
	entityKind.wantNotFound(t, s, "nobody", "a")
}

func testReplaceType(t *testing.T, s entityStore) {
	entityKind.fillPlain(t, s, workspace, "a", "b")
	e := changed(plainEntity("a"), `{}`)
	e.Type = "person"
	if replaced, err := s.replace(t.Context(), workspace, plainEntity("a"), e); !replaced || err != nil {
		t.Errorf("replaced %v, error %v", replaced, err)
	}
	entityKind.want(t, s, workspace, e, plainEntity("b"))
	listEntities(t.Context(), s, workspace, "account").check(t, []entity.Entity{plainEntity("b")}, 200)
	listEntities(t.Context(), s, workspace, "person").check(t, []entity.Entity{e}, 200)
}

// testUpsert deletes and replaces entities that are live, deleted, erased or never existed.
func testUpsert(t *testing.T, s entityStore) {
	upsert := func(id string, drafts ...entity.Draft) entity.Upserted {
		t.Helper()
		u := entity.Upsert(t.Context(), s, workspace, id, drafts, nil)
		if err := errors.Join(u.Errs...); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		return u
	}
	gone := entity.Change{Entity: plainEntity("live"), Deleted: true, DeletedAt: updatedAt}
	gone.Attributes, gone.Revision, gone.UpdatedAt = nil, 2, record.Time{}
	for _, id := range []string{"live", "changed"} {
		entityKind.fillPlain(t, s, workspace, id)
		deletion := []entity.Draft{{ID: id, Type: "robot", Deleted: true}}
		if id == "changed" {
			deletion = append([]entity.Draft{{ID: id, Type: "robot", Attributes: record.Attributes(`{"b":2}`)}}, deletion...)
		}
		gone.ID = id
		for range 2 {
			if u := upsert(id, deletion...); !u.Deleted || u.Created != -1 {
				t.Errorf("delete %s: %+v", id, u)
			}
			entityKind.wantNotFound(t, s, workspace, id)
			if stored := changesWith(t, s, id); len(stored) != 1 || !reflect.DeepEqual(stored[0], gone) {
				t.Errorf("the changes of %s are %+v, want %+v", id, stored, gone)
			}
		}
	}
	if upsert("never", entity.Draft{ID: "never", Deleted: true}); len(changesWith(t, s, "never")) != 0 {
		t.Error("the deletion of an entity that never existed is a change")
	}
	if _, err := s.erase(t.Context(), workspace, "erased", updatedAt, updatedAt); err != nil {
		t.Fatal(err)
	}
	entityKind.fillPlain(t, s, workspace, "other")
	for id, revision := range map[string]int64{"live": 3, "erased": 2, "other": 2, "new": 1} {
		want := entity.Change{Entity: entity.Entity{ID: id, Type: "robot", Attributes: record.Attributes(`{"b":{"c":null}}`), Revision: revision, CreatedAt: updatedAt, UpdatedAt: updatedAt}}
		if id == "other" {
			want.CreatedAt = entityCreatedAt
		}
		if id == "erased" {
			want.ErasedAt = updatedAt
		}
		if u := upsert(id, entity.Draft{ID: id, Type: "robot", Attributes: want.Attributes, Replace: true}); u.Deleted || (u.Created == 0) != (id != "other") || !reflect.DeepEqual(u.Entity, want.Entity) {
			t.Errorf("replace %s: %+v, want %+v", id, u, want)
		}
		if stored := changesWith(t, s, id); len(stored) != 1 || !reflect.DeepEqual(stored[0], want) {
			t.Errorf("the changes of %s are %+v, want %+v", id, stored, want)
		}
	}
	if n, err := s.Count(t.Context(), workspace, entity.Query{Type: "account"}, updatedAt); n != 0 || err != nil {
		t.Errorf("%d entities of the old type, error %v", n, err)
	}
}

// testConcurrentUpdates increments a number in one entity from many goroutines.
func testConcurrentUpdates(t *testing.T, s entityStore) {
	const workers, each = 8, 5
	e := plainEntity("a")
	e.Attributes = counted(0)
	entityKind.fill(t, s, workspace, e)
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

// increment makes one attempt to add 1 to the number in the entity "a".
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
	return s.replace(t.Context(), workspace, was, e)
}
