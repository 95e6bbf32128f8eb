package storetest

import (
	"context"
	"fmt"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// racing is a Store on which another client makes a change during each write: when the write has
// read the entity, and has not yet stored anything.
type racing struct {
	entity.Store
	other func()
}

func (s racing) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	edit, first := w.Edit, true
	w.Edit = func(latest entity.Change, stamp record.Time) (entity.Change, bool, error) {
		if first {
			first = false
			s.other()
		}
		return edit(latest, stamp)
	}
	return s.Store.Write(ctx, workspace, w)
}

// EntityRaces lets another client change an entity while a client changes it too. The change must
// be made to the result of the other.
func EntityRaces(t *testing.T, open OpenEntities) {
	s := open.store(t)
	update := func(patch string) func(entity.Store, string) error {
		return func(s entity.Store, id string) error {
			_, err := entity.Update(t.Context(), s, workspace, id, record.Attributes(patch), nil)
			return err
		}
	}
	upserting := func(d entity.Draft) func(entity.Store, string) error {
		return func(s entity.Store, id string) error {
			d.ID = id
			return entity.Upsert(t.Context(), s, workspace, id, []entity.Draft{d}, nil).Errs[0]
		}
	}
	upsert := upserting(entity.Draft{Attributes: record.Attributes(`{"b":2}`)})
	replace := upserting(entity.Draft{Attributes: record.Attributes(`{"b":null}`), Replace: true})
	discard := upserting(entity.Draft{Deleted: true})
	remove := func(s entity.Store, id string) error { return entity.Delete(t.Context(), s, workspace, id, nil) }
	create := func(s entity.Store, id string) error {
		_, _, err := entity.Create(t.Context(), s, workspace, entity.Draft{ID: id, Attributes: record.Attributes(`{"new":1}`)})
		return err
	}
	for i, tt := range []race{
		{true, update(`{"b":2}`), update(`{"a":null,"c":3}`), 0, `{"c":3,"b":2}`, 3},
		{true, update(`{"b":2}`), update(`{"b":2}`), 0, `{"a":1,"b":2}`, 2},
		{true, update(`{"b":2}`), remove, record.NotFound, ``, 0},
		{true, upsert, update(`{"c":3}`), 0, `{"a":1,"c":3,"b":2}`, 3},
		{true, upsert, remove, 0, `{"b":2}`, 3},
		{false, upsert, create, 0, `{"new":1,"b":2}`, 2},
		{true, replace, update(`{"c":3}`), 0, `{"b":null}`, 3},
		{true, replace, remove, 0, `{"b":null}`, 3},
		{false, replace, create, 0, `{"b":null}`, 2},
		{true, discard, update(`{"c":3}`), 0, ``, 0},
		{true, remove, discard, 0, ``, 0},
		{false, discard, create, 0, `{"new":1}`, 1},
		{true, remove, update(`{"c":3}`), 0, ``, 0},
		{false, create, upsert, record.Conflict, `{"b":2}`, 1},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tt.run(t, s, fmt.Sprint("race-", i))
		})
	}
}

type race struct {
	exists      bool
	call, other func(entity.Store, string) error
	code        record.Code
	want        string // attributes afterwards; "" for no entity
	revision    int64
}

func (r race) run(t *testing.T, s entityStore, id string) {
	if r.exists {
		entityKind.fillPlain(t, s, workspace, id)
	}
	other := func() {
		if err := r.other(s.Store, id); err != nil {
			t.Errorf("the other: %v", err)
		}
	}
	if err := r.call(racing{s.Store, other}, id); record.CodeOf(err) != r.code || (err == nil) != (r.code == 0) {
		t.Errorf("error %v, want code %d", err, r.code)
	}
	got, err := s.Get(t.Context(), workspace, id)
	if err != nil {
		got = entity.Entity{}
	}
	if string(got.Attributes) != r.want || got.Revision != r.revision || (err == nil) != (r.want != "") {
		t.Errorf("%s, revision %d, error %v; want %s, %d", got.Attributes, got.Revision, err, r.want, r.revision)
	}
}
