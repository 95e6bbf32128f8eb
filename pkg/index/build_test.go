package index

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"sluice/pkg/record"
)

type oneStore struct {
	Store
	d Declaration
}

func (s *oneStore) List(context.Context) ([]Declaration, error) { return []Declaration{s.d}, nil }

func (s *oneStore) Put(_ context.Context, d Declaration) (Declaration, error) {
	s.d = d
	return d, nil
}

func (s *oneStore) Remove(context.Context, Declaration) error { return nil }

type fewKeys struct{ pages int }

func (k *fewKeys) Expect(context.Context, Declaration) (int64, error) { return 2, nil }

func (k *fewKeys) BuildKeys(context.Context, Declaration, record.Cursor, int) (Step, error) {
	k.pages--
	step := Step{Indexed: 1}
	if k.pages > 0 {
		step.Next = "more"
	}
	return step, nil
}

func (k *fewKeys) ClearKeys(context.Context, Declaration, record.Cursor, int) (next record.Cursor, err error) {
	if k.pages--; k.pages > 0 {
		next = "more"
	}
	return next, nil
}

func TestABuilderSaysWhetherItWaits(t *testing.T) {
	t.Parallel()
	for from, want := range map[State][]string{
		Writing:  {"writing true", "writing false", "building false", "building false", "ready false"},
		Building: {"building false", "ready false"},
		Removing: {"removing true", "removing false", "removing false"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &oneStore{d: Declaration{Workspace: "default", Type: "person", Fields: Fields{{Name: "email", ValueType: Text}}, Place: 1, State: from}}
			var got []string
			progress := func(d Declaration, waiting bool) { got = append(got, fmt.Sprint(d.State, " ", waiting)) }
			if _, err := NewBuilder(s, &fewKeys{2}, BuilderConfig{Progress: progress}).Run(t.Context(), s.d); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v; want %q", from, got, err, want)
			}
		})
	}
}
