package bolt_test

import (
	"path/filepath"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/index"
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
	storetest.FindEntities(t, func(t *testing.T, indexed *index.Current) (storetest.IndexedEntities, index.Store) {
		s, err := bolt.NewEntities(openDB(t), entity.Clock{}, indexed)
		if err != nil {
			t.Fatal(err)
		}
		return s, openIndexes(t)
	})
}
