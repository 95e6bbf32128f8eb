package storetest

import (
	"fmt"
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
