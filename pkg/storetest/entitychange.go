package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// entityAt returns the time that is n milliseconds after updatedAt.
func entityAt(n int) record.Time {
	return record.TimeOf(updatedAt.Time().Add(time.Duration(n) * time.Millisecond))
}

// remove deletes e. The time of the deletion is updatedAt.
func remove(t *testing.T, s entity.Store, e entity.Entity) {
	t.Helper()
	if deleted, err := s.Delete(t.Context(), workspace, e, updatedAt); !deleted || err != nil {
		t.Fatalf("delete %s: %v, error %v", e.ID, deleted, err)
	}
}

// testCreateAgain deletes entities and then creates entities with the same ids. The times of
// the new entities are before, at or after the time of the deletion.
func testCreateAgain(t *testing.T, s entity.Store) {
	for i, tt := range []struct{ stamp, want record.Time }{
		{entityCreatedAt, entityAt(1)}, {entityAt(-1), entityAt(1)}, {updatedAt, entityAt(1)}, {entityAt(1), entityAt(1)}, {entityAt(2), entityAt(2)},
	} {
		id := fmt.Sprintf("%d", i)
		entityKind.FillPlain(t, s, workspace, id)
		remove(t, s, plainEntity(id))
		again := plainEntity(id)
		again.CreatedAt, again.UpdatedAt = tt.stamp, tt.stamp
		want := plainEntity(id)
		want.CreatedAt, want.UpdatedAt = tt.want, tt.want
		for _, first := range []bool{true, false} {
			stored, created, err := s.Create(t.Context(), workspace, again)
			if created != first || err != nil || !reflect.DeepEqual(stored, want) {
				t.Errorf("create %s at %s: created %v, error %v\n got %+v\nwant %+v", id, tt.stamp, created, err, stored, want)
			}
		}
		if got, err := s.Get(t.Context(), workspace, id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("get %s: error %v\n got %+v\nwant %+v", id, err, got, want)
		}
		l := changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: entityAt(1)})
		if page, _ := l.Read(t, nil, 200); !slices.ContainsFunc(page, func(c entity.Change) bool { return reflect.DeepEqual(c.Entity, want) }) {
			t.Errorf("the changes after the deletion are %+v, without %+v", page, want)
		}
	}
}

// testChanges lists entities that were created, updated and deleted, some of them at the
// same time.
func testChanges(t *testing.T, s entity.Store) {
	var want []entity.Change
	for i := range 40 {
		e := plainEntity(fmt.Sprintf("%02d", 39-i))
		e.CreatedAt, e.UpdatedAt = entityAt(i/3), entityAt(i/3)
		entityKind.Fill(t, s, workspace, e)
		switch i % 4 {
		case 0:
			was := e
			e.Attributes, e.UpdatedAt = record.Attributes(`{"n":1}`), entityAt(5+i/5)
			if replaced, err := s.Replace(t.Context(), workspace, was, e); !replaced || err != nil {
				t.Fatalf("replace: %v, error %v", replaced, err)
			}
			want = append(want, entity.Change{Entity: e})
		case 1:
			if deleted, err := s.Delete(t.Context(), workspace, e, entityAt(7+i/4)); !deleted || err != nil {
				t.Fatalf("delete: %v, error %v", deleted, err)
			}
			want = append(want, entity.TombstoneOf(e, entityAt(7+i/4)))
		default:
			want = append(want, entity.Change{Entity: e})
		}
	}
	entityKind.FillPlain(t, s, "other", "00")
	for _, descending := range []bool{false, true} {
		l := changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: entityCreatedAt, Descending: descending})
		l.Check(t, want, 1, 3, 7, 39, 40, 41, 200)
	}
	changesOf(t.Context(), s.Changes, "nobody", record.SyncQuery{}).Check(t, nil, 10)
}

func testChangesBetween(t *testing.T, s entity.Store) {
	var all []entity.Change
	for i := range 6 {
		for _, id := range []string{"-", "z"} { // the lowest and the highest character that an id can contain
			e := plainEntity(fmt.Sprintf("%s%d", id, i))
			e.UpdatedAt = entityAt(i)
			entityKind.Fill(t, s, workspace, e)
			all = append(all, entity.Change{Entity: e})
		}
	}
	for since := -1; since <= 6; since++ {
		for until := since; until <= 7; until++ {
			end := entityAt(until)
			q := record.SyncQuery{Since: entityAt(since), Until: &end}
			want := all
			if until == 7 {
				q.Until = nil
			}
			want = slices.DeleteFunc(slices.Clone(want), func(c entity.Change) bool {
				return c.UpdatedAt.Compare(q.Since) < 0 || c.UpdatedAt.Compare(end) >= 0
			})
			for _, q.Descending = range []bool{false, true} {
				changesOf(t.Context(), s.Changes, workspace, q).Check(t, want, 1, 5, 200)
			}
		}
	}
}

func testChangesBytes(t *testing.T, s entity.Store) {
	var all []entity.Entity
	for i := range 15 {
		e := plainEntity(fmt.Sprintf("%02d", i))
		e.Attributes = record.Attributes(`{"a":"` + strings.Repeat("<", 250_000) + `"}`)
		all = append(all, e)
	}
	entityKind.Fill(t, s, workspace, all...)
	pages := changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{}).Walk(t, nil, 200)
	got := slices.Concat(pages...)
	if !slices.EqualFunc(got, all, func(c entity.Change, e entity.Entity) bool { return c.ID == e.ID }) || len(pages) != 2 {
		t.Errorf("%d changes on %d pages, want %d on 2", len(got), len(pages), len(all))
	}
}

// testEntityErase erases entities that exist, were deleted, were erased, or never existed. The
// time of each erasure is before, at or after the latest change of the entity.
func testEntityErase(t *testing.T, s entity.Store) {
	entityKind.FillPlain(t, s, workspace, "b")
	entityKind.FillPlain(t, s, "other", "lives-0")
	for i, tt := range []struct {
		now  time.Time
		want record.Time
	}{{entityCreatedAt.Time().Add(-time.Hour), entityAt(1)}, {updatedAt.Time(), entityAt(1)}, {entityAt(2).Time(), entityAt(2)}} {
		lives, was, never := fmt.Sprint("lives-", i), fmt.Sprint("was-", i), fmt.Sprint("never-", i)
		e := plainEntity(lives)
		e.UpdatedAt = updatedAt
		entityKind.Fill(t, s, workspace, e)
		entityKind.FillPlain(t, s, workspace, was)
		remove(t, s, plainEntity(was))
		wantOf := func(e entity.Entity, at record.Time) entity.Change {
			c := entity.TombstoneOf(e, at)
			c.Erased, c.ErasedAt = true, at
			return c
		}
		now := record.TimeOf(tt.now)
		for _, want := range []entity.Change{
			wantOf(e, tt.want), wantOf(plainEntity(was), tt.want),
			wantOf(entity.Entity{ID: never, Type: entity.DefaultType, CreatedAt: now}, now),
		} {
			for range 2 { // the second call replaces the tombstone that the first call stored
				got, err := s.Erase(t.Context(), workspace, want.ID, tt.now)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("erase %s at %s: error %v\n got %+v\nwant %+v", want.ID, tt.now, err, got, want)
				}
				if stored := changesWith(t, s, want.ID); len(stored) != 1 || !reflect.DeepEqual(stored[0], want) {
					t.Errorf("the changes of %s are %+v, want %+v", want.ID, stored, want)
				}
				entityKind.WantNotFound(t, s, workspace, want.ID)
				want.DeletedAt = want.DeletedAt.Next(tt.now)
				want.ErasedAt = want.DeletedAt
			}
		}
	}
	entityKind.Want(t, s, workspace, plainEntity("b"))
	entityKind.Want(t, s, "other", plainEntity("lives-0"))
}

// changesWith returns the changes of the entity with the given id.
func changesWith(t *testing.T, s entity.Store, id string) []entity.Change {
	t.Helper()
	all := slices.Concat(changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: recordAt("0000-01-01T00:00:00Z")}).Walk(t, nil, 200)...)
	return slices.DeleteFunc(all, func(c entity.Change) bool { return c.ID != id })
}

// testDeleteAfterErase erases an entity, creates it again and deletes it. The list of
// changes must still contain the ErasedAt of the erasure.
func testDeleteAfterErase(t *testing.T, s entity.Store) {
	erased, err := s.Erase(t.Context(), workspace, "a", updatedAt.Time())
	if err != nil {
		t.Fatal(err)
	}
	again, created, err := s.Create(t.Context(), workspace, plainEntity("a"))
	if err != nil || !created || again.UpdatedAt != entityAt(1) {
		t.Fatalf("create: %+v, %v, error %v", again, created, err)
	}
	if deleted, err := s.Delete(t.Context(), workspace, again, entityAt(5)); !deleted || err != nil {
		t.Fatalf("delete: %v, error %v", deleted, err)
	}
	changes := changesWith(t, s, "a")
	if n := len(changes); n == 0 || changes[n-1].DeletedAt != entityAt(5) || !slices.ContainsFunc(changes, func(c entity.Change) bool { return c.Erased && c.ErasedAt == erased.ErasedAt }) {
		t.Errorf("the changes are %+v, want a deletion at %s, and that events until %s are erased", changes, entityAt(5), erased.ErasedAt)
	}
}
