package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"sluice/pkg/index"
	"sluice/pkg/record"
)

// Indexes tests an index.Store. open returns an empty store.
func Indexes(t *testing.T, open func(t *testing.T) index.Store) {
	runAll(t, open, []test[index.Store]{
		{"a list returns the declarations as they were put, in order", testIndexesReadBack},
		{"only a declaration with the stored revision replaces or is removed", testIndexRevisions},
		{"of concurrent changes with the same revision, one is stored", testConcurrentIndexes},
		{"an attribute is declared once, even if another index is removed meanwhile", testIndexDeclaredOnce},
		{"a builder leaves alone a declaration that was removed and added again", testBuilderOfEarlierIndex},
	})
}

func declaration(typ, attribute string, place int) index.Declaration {
	return index.Declaration{Workspace: workspace, Type: typ, Fields: index.Fields{{Name: attribute, ValueType: index.Text}}, Place: place, State: index.Writing}
}

func wantIndexes(t *testing.T, s index.Store, want ...index.Declaration) {
	t.Helper()
	got, err := s.List(t.Context())
	if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

func putIndex(t *testing.T, s index.Store, d index.Declaration) index.Declaration {
	t.Helper()
	stored, err := s.Put(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func testIndexesReadBack(t *testing.T, s index.Store) {
	wantIndexes(t, s)
	b := putIndex(t, s, declaration("person", "b \u00e9\x00#", 1))
	c := declaration("person#1", "c", 2)
	c.Fields = index.Fields{{Name: "c", ValueType: index.Number}, {Name: "a", ValueType: index.Boolean}, {Name: "b", ValueType: index.Text}}
	c.State, c.Build = index.Building, index.Build{Checkpoint: "z", Expected: 9, Read: 6, Indexed: 1, Absent: 2, Unfit: 3}
	c = putIndex(t, s, c)
	a := putIndex(t, s, declaration("person", "a", 4))
	wantIndexes(t, s, a, b, c)
}

func testIndexRevisions(t *testing.T, s index.Store) {
	first := putIndex(t, s, declaration("person", "a", 1))
	if _, err := s.Put(t.Context(), declaration("person", "another", 1)); !errors.Is(err, index.ErrChanged) {
		t.Errorf("a second declaration took the place: %v", err)
	}
	next := first
	next.State = index.Ready
	next = putIndex(t, s, next)
	if next.Revision <= first.Revision {
		t.Errorf("revision %d after %d", next.Revision, first.Revision)
	}
	if _, err := s.Put(t.Context(), first); !errors.Is(err, index.ErrChanged) {
		t.Errorf("put an old revision: %v", err)
	}
	if err := s.Remove(t.Context(), first); !errors.Is(err, index.ErrChanged) {
		t.Errorf("removed an old revision: %v", err)
	}
	wantIndexes(t, s, next)
	for range 2 {
		if err := s.Remove(t.Context(), next); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	wantIndexes(t, s)
	if _, err := s.Put(t.Context(), next); !errors.Is(err, index.ErrChanged) {
		t.Errorf("put a removed declaration: %v", err)
	}
}

func testConcurrentIndexes(t *testing.T, s index.Store) {
	const writers = 8
	stored := putIndex(t, s, declaration("person", "a", 1))
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			d := stored
			d.Build.Checkpoint = record.Cursor(fmt.Sprint(i))
			_, errs[i] = s.Put(t.Context(), d)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, index.ErrChanged):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d changes were stored", won)
	}
}

// overtaken is a Store in which another process makes one of the changes right after each List.
type overtaken struct {
	index.Store
	changes []func()
}

func (s *overtaken) List(ctx context.Context) ([]index.Declaration, error) {
	all, err := s.Store.List(ctx)
	if len(s.changes) > 0 {
		s.changes[0]()
		s.changes = s.changes[1:]
	}
	return all, err
}

func testIndexDeclaredOnce(t *testing.T, s index.Store) {
	email := declaration("person", "email", 0)
	first := putIndex(t, s, declaration("person", "a", 1))
	var other index.Declaration
	late := &overtaken{s, []func(){func() { // the first place becomes free, and another command takes it
		err := s.Remove(t.Context(), first)
		if err == nil {
			other, err = index.Add(t.Context(), s, email)
		}
		if err != nil || other.Place != 1 {
			t.Error(other, err)
		}
	}}}
	if got, err := index.Add(t.Context(), late, email); err != nil || got != other {
		t.Errorf("added %+v, %v; want %+v", got, err, other)
	}
	wantIndexes(t, s, other)

	// It does not matter if another declaration merely changes.
	var changed index.Declaration
	late.changes = []func(){func() { changed = putIndex(t, s, other) }}
	b, err := index.Add(t.Context(), late, declaration("person", "b", 0))
	if err != nil || b.Place != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	wantIndexes(t, s, b, changed)
}

// noKeeper is a Keeper that must not be called.
type noKeeper struct{ index.Keeper }

func testBuilderOfEarlierIndex(t *testing.T, s index.Store) {
	for _, state := range []index.State{index.Writing, index.Building, index.Removing} {
		d := declaration("person", "a", 1)
		d.State = state
		earlier := putIndex(t, s, d)
		if err := s.Remove(t.Context(), earlier); err != nil {
			t.Fatal(err)
		}
		later := putIndex(t, s, d)
		if _, _, err := index.NewBuilder(s, noKeeper{}, index.BuilderConfig{}).Step(t.Context(), earlier); !errors.Is(err, index.ErrChanged) {
			t.Errorf("%s: %v", state, err)
		}
		wantIndexes(t, s, later)
		if err := s.Remove(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
}
