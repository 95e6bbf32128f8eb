package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/record"
)

// mapStore keeps declarations by id.
type mapStore struct {
	Store
	all map[string]Declaration
}

func (s *mapStore) List(context.Context) ([]Declaration, error) {
	return slices.SortedFunc(maps.Values(s.all), Declaration.Compare), nil
}

func (s *mapStore) Put(_ context.Context, d Declaration) (Declaration, error) {
	d.Revision++
	s.all[d.ID()] = d
	return d, nil
}

func (s *mapStore) Remove(_ context.Context, d Declaration) error {
	delete(s.all, d.ID())
	return nil
}

// pages is a Keeper of types that each have some pages left. It notes when it was called.
type pages struct {
	left  map[string]int
	begun time.Time
	calls []string
}

func (k *pages) Expect(context.Context, Declaration) (int64, error) { return 2, nil }

func (k *pages) BuildKeys(_ context.Context, d Declaration, _ record.Cursor, _ int) (Step, error) {
	k.calls = append(k.calls, fmt.Sprintf("%s %gs", d.Type, time.Since(k.begun).Seconds()))
	k.left[d.Type]--
	switch left := k.left[d.Type]; {
	case left < 0:
		return Step{}, errors.New("broken")
	case left > 0:
		return Step{Indexed: 1, Next: "more"}, nil
	}
	return Step{Indexed: 1}, nil
}

func (k *pages) ClearKeys(ctx context.Context, d Declaration, cursor record.Cursor, limit int) (next record.Cursor, err error) {
	step, err := k.BuildKeys(ctx, d, cursor, limit)
	return step.Next, err
}

func testDeclaration(typ string, state State) Declaration {
	return Declaration{Workspace: "default", Type: typ, Fields: Fields{{Name: "email", ValueType: Text}}, Place: 1, State: state}
}

// A call every minute waits until all processes know, takes turns between the indexes, keeps to their
// rates, stops when its time is over, and continues where the last one stopped.
func TestABuilderWorksInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := &mapStore{all: make(map[string]Declaration)}, &pages{left: map[string]int{"a": 3, "b": 2, "c": 200}, begun: time.Now()}
		slow := testDeclaration("a", Writing)
		slow.Rate = 100
		for _, d := range []Declaration{slow, testDeclaration("b", Removing), testDeclaration("ready", Ready)} {
			s.all[d.ID()] = d
		}
		b := NewBuilder(s, k, BuilderConfig{})
		minute := func() (worked time.Duration) {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := b.Work(ctx); err != nil {
				t.Error(err)
			}
			worked = time.Since(begun)
			time.Sleep(time.Minute - worked)
			return worked
		}
		if worked := minute() + minute(); worked != 0 || k.calls != nil {
			t.Errorf("worked for %s: %q, before all processes know", worked, k.calls)
		}
		minute()
		// The step of a to the state Building comes first, at 120 s.
		if want := "b 121s, a 121.4s, b 122.4s, a 122.8s, a 123.8s"; strings.Join(k.calls, ", ") != want {
			t.Errorf("%q, want %s", k.calls, want)
		}
		if a := s.all[slow.ID()]; len(s.all) != 2 || a.State != Ready || a.Build != (Build{Expected: 2, Read: 3, Indexed: 3}) {
			t.Errorf("%+v", s.all)
		}
		c := testDeclaration("c", Building)
		s.all[c.ID()] = c
		for range 3 {
			if worked := minute(); worked != 20*time.Second {
				t.Errorf("worked for %s, want 20 s", worked)
			}
		}
		if worked := minute(); s.all[c.ID()].State != Ready || s.all[c.ID()].Build.Indexed != 200 {
			t.Errorf("worked for %s: %+v", worked, s.all[c.ID()])
		}
	})
}

func TestABuilderLeavesAFailedIndexToTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := &mapStore{all: make(map[string]Declaration)}, &pages{left: map[string]int{"broken": 0, "fine": 3}}
		for typ := range k.left {
			d := testDeclaration(typ, Building)
			s.all[d.ID()] = d
		}
		err := NewBuilder(s, k, BuilderConfig{}).Work(t.Context())
		if fine := testDeclaration("fine", ""); err == nil || !strings.Contains(err.Error(), "broken.email of default") || k.left["broken"] != -1 || s.all[fine.ID()].State != Ready {
			t.Errorf("error %v, %+v", err, s.all)
		}
	})
}

// slowStore takes a second for each List.
type slowStore struct{ Store }

func (slowStore) List(ctx context.Context) ([]Declaration, error) {
	rest(ctx, time.Second)
	return nil, ctx.Err()
}

func TestABuilderEndsWithoutAnErrorInTheMiddleOfAList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := NewBuilder(slowStore{}, nil, BuilderConfig{}).Work(ctx); err != nil {
			t.Error(err)
		}
	})
}

// While an index is being built, adding it again changes its rate.
func TestAddTakesOverTheRate(t *testing.T) {
	t.Parallel()
	d := testDeclaration("person", Building)
	s := &mapStore{all: map[string]Declaration{d.ID(): d}}
	d.Rate = 50
	if got, err := Add(t.Context(), s, d); err != nil || got.Rate != 50 || s.all[d.ID()].Rate != 50 || got.State != Building {
		t.Errorf("%+v, %v", got, err)
	}
	d.Rate = 0
	if got, err := Add(t.Context(), s, d); err != nil || got.Rate != 50 {
		t.Errorf("%+v, %v", got, err)
	}
}
