package storetest

import (
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

// entityAt returns the time n milliseconds after updatedAt.
func entityAt(n int) record.Time {
	return record.TimeOf(updatedAt.Time().Add(time.Duration(n) * time.Millisecond))
}

// remove deletes an entity at updatedAt.
func remove(t *testing.T, s entityStore, id string) {
	t.Helper()
	if deleted, err := s.delete(t.Context(), workspace, id, updatedAt); !deleted || err != nil {
		t.Fatalf("delete %s: %v, error %v", id, deleted, err)
	}
}

// testCreateAgain uses clocks that show times before, at and after the deletion.
func testCreateAgain(t *testing.T, s entityStore) {
	for i, tt := range []struct{ now, want int }{{-4000, 0}, {-1, 0}, {0, 0}, {1, 1}, {2, 2}} {
		id := fmt.Sprintf("%d", i)
		entityKind.fillPlain(t, s, workspace, id)
		remove(t, s, id)
		again, want := plainEntity(id), plainEntity(id)
		again.CreatedAt = entityAt(tt.now)
		want.Revision, want.CreatedAt, want.UpdatedAt = 3, entityAt(tt.want), entityAt(tt.want)
		for _, first := range []bool{true, false} {
			stored, created, err := s.create(t.Context(), workspace, again)
			if created != first || err != nil || !reflect.DeepEqual(stored, want) {
				t.Errorf("create %s at %d ms: created %v, error %v\n got %+v\nwant %+v", id, tt.now, created, err, stored, want)
			}
		}
		if got, err := s.Get(t.Context(), workspace, id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("get %s: error %v\n got %+v\nwant %+v", id, err, got, want)
		}
		if stored := changesWith(t, s, id); len(stored) != 1 || !reflect.DeepEqual(stored[0], entity.Change{Entity: want}) {
			t.Errorf("the changes of %s are %+v, want %+v", id, stored, want)
		}
	}
}

// testChanges creates, updates and deletes entities, some of them at the same time.
func testChanges(t *testing.T, s entityStore) {
	var want []entity.Change
	for i := range 40 {
		e := plainEntity(fmt.Sprintf("%02d", 39-i))
		e.CreatedAt, e.UpdatedAt = entityAt(i/3), entityAt(i/3)
		entityKind.fill(t, s, workspace, e)
		switch i % 4 {
		case 0:
			was := e
			e.Attributes, e.Revision, e.UpdatedAt = record.Attributes(`{"n":1}`), 2, entityAt(20+i/5)
			if replaced, err := s.replace(t.Context(), workspace, was, e); !replaced || err != nil {
				t.Fatalf("replace: %v, error %v", replaced, err)
			}
			want = append(want, entity.Change{Entity: e})
		case 1:
			if deleted, err := s.delete(t.Context(), workspace, e.ID, entityAt(20+i/4)); !deleted || err != nil {
				t.Fatalf("delete: %v, error %v", deleted, err)
			}
			e.Attributes, e.Revision, e.UpdatedAt = nil, 2, record.Time{}
			want = append(want, entity.Change{Entity: e, Deleted: true, DeletedAt: entityAt(20 + i/4)})
		default:
			want = append(want, entity.Change{Entity: e})
		}
	}
	entityKind.fillPlain(t, s, "other", "00")
	for _, descending := range []bool{false, true} {
		l := changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: entityCreatedAt, Descending: descending})
		l.check(t, want, 1, 3, 7, 39, 40, 41, 200)
	}
	changesOf(t.Context(), s.Changes, "nobody", record.SyncQuery{}).check(t, nil, 10)
}

// testFilteredChanges lists the changes of one type. Entities of other types must be returned
// as gone, and the pages must be full.
func testFilteredChanges(t *testing.T, s entityStore) {
	var want []entity.Change
	for i := range 9 {
		e := plainEntity(fmt.Sprint(i))
		e.Type, e.CreatedAt, e.UpdatedAt = fmt.Sprint("type-", i%3), entityAt(i), entityAt(i)
		entityKind.fill(t, s, workspace, e)
		c := entity.Change{Entity: e}
		if e.Type != "type-1" {
			c = entity.Change{Entity: entity.Entity{ID: e.ID, Type: e.Type, Revision: e.Revision, UpdatedAt: e.UpdatedAt}, Deleted: true, Reason: record.Filtered}
		}
		want = append(want, c)
	}
	list := func(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[entity.Change], error) {
		return entity.ListChanges(ctx, s, workspace, entity.ChangeQuery{SyncQuery: q, Type: "type-1", IncludeDeleted: true}, updatedAt.Time())
	}
	changesOf(t.Context(), list, workspace, record.SyncQuery{Since: entityCreatedAt}).check(t, want, 1, 4, 200)
}

func testChangesSince(t *testing.T, s entityStore) {
	var all []entity.Change
	for i := range 6 {
		for _, id := range []string{"-", "z"} { // the lowest and the highest character that an id may have
			e := plainEntity(fmt.Sprintf("%s%d", id, i))
			e.CreatedAt, e.UpdatedAt = entityAt(i), entityAt(i)
			entityKind.fill(t, s, workspace, e)
			all = append(all, entity.Change{Entity: e})
		}
	}
	for since := -1; since <= 6; since++ {
		q := record.SyncQuery{Since: entityAt(since)}
		want := slices.DeleteFunc(slices.Clone(all), func(c entity.Change) bool { return c.UpdatedAt.Compare(q.Since) < 0 })
		for _, q.Descending = range []bool{false, true} {
			changesOf(t.Context(), s.Changes, workspace, q).check(t, want, 5)
		}
	}
}

func testChangesBytes(t *testing.T, s entityStore) {
	var all []entity.Entity
	for i := range 15 {
		e := plainEntity(fmt.Sprintf("%02d", i))
		e.Attributes = record.Attributes(`{"a":"` + strings.Repeat("<", 250_000) + `"}`)
		all = append(all, e)
	}
	entityKind.fill(t, s, workspace, all...)
	pages := changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{}).walk(t, "", 200)
	got := slices.Concat(pages...)
	if !slices.EqualFunc(got, all, func(c entity.Change, e entity.Entity) bool { return c.ID == e.ID }) || len(pages) != 2 {
		t.Errorf("%d changes on %d pages, want %d on 2", len(got), len(pages), len(all))
	}
}

// testEntityErase erases entities that exist, were deleted or erased, or never existed. The
// clock shows a time before, at or after their latest change.
func testEntityErase(t *testing.T, s entityStore) {
	entityKind.fillPlain(t, s, workspace, "b")
	entityKind.fillPlain(t, s, "other", "lives-0")
	for i, tt := range []struct{ now, want int }{{-1000, 0}, {0, 0}, {2, 2}} {
		lives, was, never := fmt.Sprint("lives-", i), fmt.Sprint("was-", i), fmt.Sprint("never-", i)
		e, now := plainEntity(lives), entityAt(tt.now)
		e.CreatedAt, e.UpdatedAt = updatedAt, updatedAt
		entityKind.fill(t, s, workspace, e)
		entityKind.fillPlain(t, s, workspace, was)
		remove(t, s, was)
		wantOf := func(id, typ string, revision int64, created, at record.Time) entity.Change {
			return entity.Change{Entity: entity.Entity{ID: id, Type: typ, Revision: revision, CreatedAt: created}, Deleted: true, DeletedAt: at, ErasedAt: now}
		}
		for _, want := range []entity.Change{
			wantOf(lives, "account", 2, updatedAt, entityAt(tt.want)), wantOf(was, "account", 3, entityCreatedAt, entityAt(tt.want)), wantOf(never, entity.DefaultType, 1, now, now),
		} {
			for range 2 { // the second call replaces the tombstone of the first
				got, err := s.erase(t.Context(), workspace, want.ID, now, want.ErasedAt)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("erase %s at %s: error %v\n got %+v\nwant %+v", want.ID, now, err, got, want)
				}
				if stored := changesWith(t, s, want.ID); len(stored) != 1 || !reflect.DeepEqual(stored[0], want) {
					t.Errorf("the changes of %s are %+v, want %+v", want.ID, stored, want)
				}
				if again, err := s.erase(t.Context(), workspace, want.ID, now, want.ErasedAt); err != nil || !reflect.DeepEqual(again, want) {
					t.Errorf("erase %s again, with the same time: error %v\n got %+v\nwant %+v", want.ID, err, again, want)
				}
				entityKind.wantNotFound(t, s, workspace, want.ID)
				want.DeletedAt = want.DeletedAt.Next(now.Time())
				want.ErasedAt = record.TimeOf(want.ErasedAt.Time().Add(time.Millisecond))
				want.Revision++
			}
		}
	}
	entityKind.want(t, s, workspace, plainEntity("b"))
	entityKind.want(t, s, "other", plainEntity("lives-0"))
}

func changesWith(t *testing.T, s entityStore, id string) []entity.Change {
	t.Helper()
	all := slices.Concat(changesOf(t.Context(), s.Changes, workspace, record.SyncQuery{Since: recordAt("0000-01-01T00:00:00Z")}).walk(t, "", 200)...)
	return slices.DeleteFunc(all, func(c entity.Change) bool { return c.ID != id })
}

// testEraseAndCreate erases an entity, creates it again, and changes and deletes it. After
// each step, the list of changes must still show when it was erased.
func testEraseAndCreate(t *testing.T, s entityStore) {
	e := plainEntity("a")
	e.CreatedAt = entityAt(2)
	want := entity.Change{Entity: entity.Entity{ID: "a", Type: entity.DefaultType, Revision: 1, CreatedAt: updatedAt}, Deleted: true, DeletedAt: updatedAt, ErasedAt: updatedAt}
	for _, step := range []struct {
		name  string
		write func() error
		then  func()
	}{
		{"erase", func() error { _, err := s.erase(t.Context(), workspace, "a", updatedAt, updatedAt); return err }, func() {}},
		{"create", func() error { _, _, err := s.create(t.Context(), workspace, e); return err }, func() {
			e.Revision, e.UpdatedAt = 2, entityAt(2)
			want.Entity, want.Deleted, want.DeletedAt = e, false, record.Time{}
		}},
		{"replace", func() error {
			_, err := s.replace(t.Context(), workspace, e, changed(e, `{"b":2}`))
			return err
		}, func() {
			want.Attributes, want.Revision, want.UpdatedAt = record.Attributes(`{"b":2}`), 3, entityAt(2)
		}},
		{"delete", func() error { _, err := s.delete(t.Context(), workspace, "a", entityAt(5)); return err }, func() {
			want.Attributes, want.Revision, want.UpdatedAt, want.Deleted, want.DeletedAt = nil, 4, record.Time{}, true, entityAt(5)
		}},
	} {
		if err := step.write(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		step.then()
		if changes := changesWith(t, s, "a"); len(changes) != 1 || !reflect.DeepEqual(changes[0], want) {
			t.Errorf("%s: the changes are %+v, want %+v", step.name, changes, want)
		}
	}
}

// EntityClockFaults tests a store whose instances have clocks of their own. It changes entities
// whose stamp is ahead of the clock. If it is ahead by more than 2*MaxClockSkew, the change gets
// the current time, and the fault is reported exactly once.
func EntityClockFaults(t *testing.T, open OpenEntities) {
	s := open.store(t)
	ahead := recordAt("2028-01-01T00:00:00Z")
	var faults []entity.ClockFault
	write := func(now record.Time, w entity.Write) entity.Change {
		t.Helper()
		faults = nil
		at, err := s.open(entity.Clock{Now: now.Time, Fault: func(_ context.Context, f entity.ClockFault) { faults = append(faults, f) }})
		if err != nil {
			t.Fatal(err)
		}
		c, written, err := at.Write(t.Context(), workspace, w)
		if !written || err != nil {
			t.Fatalf("%s %s at %s: %v, error %v", w.Op, w.ID, now, written, err)
		}
		return c
	}
	for _, deleted := range []bool{false, true} {
		for _, kind := range []entity.Op{entity.CreateWrite, entity.UpdateWrite, entity.DeleteWrite, entity.EraseWrite} {
			if deleted != (kind == entity.CreateWrite) && kind != entity.EraseWrite {
				continue
			}
			for _, difference := range []time.Duration{2 * record.MaxClockSkew, 2*record.MaxClockSkew + time.Millisecond} {
				e := plainEntity(fmt.Sprintf("%s-%v-%d", kind, deleted, difference.Milliseconds()))
				was := write(ahead, entity.Creation(e))
				if deleted {
					was = write(ahead, entity.Deletion(e.ID, nil))
				}
				stamp := was.SyncPosition().At
				now := record.TimeOf(stamp.Time().Add(-difference))
				fault := difference > 2*record.MaxClockSkew
				want := stamp
				var wantFaults []entity.ClockFault
				if fault {
					want, wantFaults = now, []entity.ClockFault{{Workspace: workspace, ID: e.ID, Was: stamp, Now: now}}
				}
				c := write(now, map[entity.Op]entity.Write{
					entity.CreateWrite: entity.Creation(e), entity.UpdateWrite: replacement(was.Entity, e),
					entity.DeleteWrite: entity.Deletion(e.ID, nil), entity.EraseWrite: entity.Erasure(e.ID, now, time.Time{}),
				}[kind])
				if c.SyncPosition().At != want || !reflect.DeepEqual(faults, wantFaults) {
					t.Errorf("%s %s: the stamp is %s, faults %+v; want %s, %+v", kind, difference, c.SyncPosition().At, faults, want, wantFaults)
				}
				if changes := changesWith(t, s, e.ID); len(changes) != 1 || !reflect.DeepEqual(changes[0], c) {
					t.Errorf("%s %s: the changes are %+v, want %+v", kind, difference, changes, c)
				}
			}
		}
	}
}
