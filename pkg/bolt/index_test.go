package bolt_test

import (
	"path/filepath"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
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
