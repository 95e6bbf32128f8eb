package localserver

import (
	"context"
	"errors"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// brokenIndex is a Keeper that cannot build the index of one attribute.
type brokenIndex struct {
	index.Keeper
	attribute string
}

func (k brokenIndex) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (index.Step, error) {
	if d.On([]string{k.attribute}) {
		return index.Step{}, errors.New("broken")
	}
	return k.Keeper.BuildKeys(ctx, d, cursor, limit)
}

func TestAnIndexThatFailsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	store, err := bolt.OpenIndexes(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, attribute := range []string{"a", "b", "c"} {
		if _, err := index.Add(t.Context(), store, index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: attribute, ValueType: index.Text}}}); err != nil {
			t.Fatal(err)
		}
	}
	x := newIndexes(store, brokenIndex{b.stores.Entities.(index.Keeper), "a"}, new(index.Current))
	failed := 0
	for range 30 {
		if _, err := x.step(t.Context()); err != nil {
			failed++
		}
	}
	all, err := store.List(t.Context())
	if err != nil || failed == 0 || all[0].State != index.Building || all[1].State != index.Ready || all[2].State != index.Ready {
		t.Errorf("after %d failures: %+v, %v", failed, all, err)
	}
}
