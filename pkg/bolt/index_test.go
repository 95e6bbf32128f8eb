package bolt_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openIndexes(t *testing.T) index.Store {
	t.Helper()
	s, err := bolt.NewIndexes(filepath.Join(t.TempDir(), "indexes.db"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIndexes(t *testing.T) { storetest.Indexes(t, openIndexes) }

func TestFindEntities(t *testing.T) {
	t.Parallel()
	storetest.FindEntities(t, func(t *testing.T, indexed *index.Current) storetest.IndexedEntities {
		s, err := bolt.NewEntities(openDB(t), entity.Clock{}, indexed)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestFindEvents(t *testing.T) {
	t.Parallel()
	storetest.FindEvents(t, func(t *testing.T, indexed *index.Current) (event.Store, index.Keeper) {
		s, err := bolt.NewEvents(openDB(t), time.Now, indexed)
		if err != nil {
			t.Fatal(err)
		}
		return s, s
	})
}

// A query may look up an index just before the server begins to remove it. It must then fail,
// not return only the entities whose keys are left.
func TestFindWhileTheIndexIsRemoved(t *testing.T) {
	t.Parallel()
	indexed := new(index.Current)
	s, err := bolt.NewEntities(openDB(t), entity.Clock{}, indexed)
	if err != nil {
		t.Fatal(err)
	}
	d := index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, Place: 1, State: index.Ready}
	indexed.Store(index.NewSet([]index.Declaration{d}))
	for _, id := range []string{"a", "b"} {
		if _, _, err := entity.Create(t.Context(), s, "default", entity.Draft{ID: id, Type: "person", Attributes: record.Attributes(`{"email":"ada@example.com"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	q := index.Query{Declaration: d, Limit: 10}
	if err := q.Where(index.Condition{Attribute: "email", Value: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	if page, err := s.Find(t.Context(), "default", q); err != nil || len(page.Records) != 2 {
		t.Fatalf("%+v, %v", page.Records, err)
	}
	removing := d
	removing.State = index.Removing
	indexed.Store(index.NewSet([]index.Declaration{removing}))
	if _, err := s.ClearKeys(t.Context(), removing, "", 1); err != nil {
		t.Fatal(err)
	}
	if page, err := s.Find(t.Context(), "default", q); record.CodeOf(err) != record.Unavailable {
		t.Errorf("%+v, %v", page.Records, err)
	}
}

// What changes between the transaction that reads and the one that adds keys has the keys of what it
// is then.
func TestAnIndexIsBuiltWhileEntitiesChange(t *testing.T) {
	t.Parallel()
	const n = 400
	s, err := bolt.Open(t.TempDir(), bolt.Config{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a test
	set := func(ctx context.Context, i, value int) error {
		d := entity.Draft{ID: fmt.Sprintf("%03d", i), Type: "t", Attributes: record.Attributes(fmt.Sprintf(`{"a":%d}`, value))}
		if value%5 == 0 {
			d.Type = "other"
		}
		if value%7 == 0 {
			d = entity.Draft{ID: d.ID, Deleted: true}
		}
		return entity.Upsert(ctx, s.Entities, "default", d.ID, []entity.Draft{d}, nil).Errs[0]
	}
	for i := range n {
		if err := set(t.Context(), i, i+1); err != nil {
			t.Fatal(err)
		}
	}
	d := index.Declaration{Workspace: "default", Type: "t", Fields: index.Fields{{Name: "a", ValueType: index.Number}}, Place: 1, State: index.Building}
	s.Indexed.Store(index.NewSet([]index.Declaration{d}))
	var changes errgroup.Group
	for w := range 4 {
		changes.Go(func() error {
			for i := 0; i < n; i += 3 { // the others have only the keys that are built
				if err := set(t.Context(), (i+w*99)%n, i+w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for cursor, more := record.Cursor(""), true; more; {
		step, err := s.Entities.BuildKeys(t.Context(), d, cursor, 150)
		if err != nil {
			t.Fatal(err)
		}
		cursor, more = step.Next, step.Next != ""
	}
	if err := changes.Wait(); err != nil {
		t.Fatal(err)
	}
	d.State = index.Ready
	s.Indexed.Store(index.NewSet([]index.Declaration{d}))
	q := index.Query{Declaration: d, Limit: n}
	if err := q.Where(index.Condition{Attribute: "a", Operator: index.GreaterOrEqual, Value: "0"}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Entities.Find(t.Context(), "default", q)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Entities.List(t.Context(), "default", entity.Query{Type: "t", Limit: n})
	if err != nil || len(found.Records) != len(all.Records) || len(all.Records) == 0 {
		t.Errorf("the index has %d of %d entities, error %v", len(found.Records), len(all.Records), err)
	}
}
