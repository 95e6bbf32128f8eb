package entity_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// contended is a Store that calls a function before each replacement and counts the replacements.
type contended struct {
	entity.Store
	between      func()
	replacements int
}

func (c *contended) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	if w.Op == entity.ReplaceWrite {
		c.replacements++
		c.between()
	}
	return c.Store.Write(ctx, workspace, w)
}

func patch(t *testing.T, s entity.Store, patch string) {
	t.Helper()
	if _, err := entity.Update(t.Context(), s, "default", "ada", record.Attributes(patch)); err != nil {
		t.Error(err)
	}
}

func TestUpdateIsRepeatedAfterAnotherWrite(t *testing.T) {
	t.Parallel()
	s := open(t, `{"a":1}`)
	others := []string{`{"b":1}`, `{"a":null,"c":2}`}
	c := &contended{Store: s}
	c.between = func() {
		if len(others) > 0 {
			patch(t, s, others[0])
			others = others[1:]
		}
	}
	updated, err := entity.Update(t.Context(), c, "default", "ada", record.Attributes(`{"b":3,"d":4}`))
	if want := `{"b":3,"c":2,"d":4}`; err != nil || string(updated.Attributes) != want || c.replacements != 3 {
		t.Errorf("updated to %s, error %v, by %d replacements; want %s by 3", updated.Attributes, err, c.replacements, want)
	}
	if stored, err := s.Get(t.Context(), "default", "ada"); err != nil || !reflect.DeepEqual(stored, updated) {
		t.Errorf("stored %+v, error %v; want %+v", stored, err, updated)
	}
}

func TestUpdateOfAConcurrentlyDeletedEntityIsNotFound(t *testing.T) {
	t.Parallel()
	s := open(t, `{}`)
	c := &contended{Store: s, between: func() {
		if err := entity.Delete(t.Context(), s, "default", "ada"); err != nil {
			t.Error(err)
		}
	}}
	if _, err := entity.Update(t.Context(), c, "default", "ada", record.Attributes(`{"a":1}`)); record.CodeOf(err) != record.NotFound {
		t.Errorf("error %v", err)
	}
}

func TestUpdateThatChangesNothingWritesNothing(t *testing.T) {
	t.Parallel()
	c := &contended{Store: open(t, `{"a":1}`), between: func() {}}
	for _, p := range []string{`{}`, `{"a":1}`, `{"b":null}`} {
		if patch(t, c, p); c.replacements != 0 {
			t.Errorf("%s: %d replacements", p, c.replacements)
		}
	}
}

func TestUpdateGivesUpAfterThreeReplacements(t *testing.T) {
	t.Parallel()
	s, n := open(t, `{"n":0}`), 0
	c := &contended{Store: s}
	c.between = func() {
		n++
		patch(t, s, fmt.Sprintf(`{"n":%d}`, n))
	}
	if _, err := entity.Update(t.Context(), c, "default", "ada", record.Attributes(`{"lost":true}`)); record.CodeOf(err) != record.Unavailable || c.replacements != 3 {
		t.Errorf("%d replacements, error %v", c.replacements, err)
	}
	if stored, err := s.Get(t.Context(), "default", "ada"); err != nil || string(stored.Attributes) != `{"n":3}` {
		t.Errorf("stored %s, error %v", stored.Attributes, err)
	}
}

func TestUpdateWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	s := open(t, `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	c := &contended{Store: s, between: func() {
		patch(t, s, `{"a":1}`)
		time.AfterFunc(time.Millisecond, cancel)
	}}
	if _, err := entity.Update(ctx, c, "default", "ada", record.Attributes(`{"b":1}`)); record.CodeOf(err) != record.Unavailable {
		t.Errorf("error %v", err)
	}
}

// distant is a store with one entity. A call takes 2.5 ms to reach it, and 2.5 ms to return.
type distant struct {
	entity.Store

	mu           sync.Mutex
	entity       entity.Entity
	replacements int
}

const oneWay = 2500 * time.Microsecond

func (d *distant) Get(context.Context, string, string) (entity.Entity, error) {
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entity, nil
}

func (d *distant) Write(_ context.Context, _ string, w entity.Write) (entity.Change, bool, error) {
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replacements++
	latest := entity.Change{Entity: d.entity}
	next, ok := w.Next(latest, time.Now())
	if !ok {
		return latest, false, nil
	}
	d.entity = next.Entity
	return next, true, nil
}

// No applied update is lost. On average, an update makes at most 3 writes. Updates that are
// not applied fail with code Unavailable.
func TestConcurrentUpdatesBackOff(t *testing.T) {
	t.Parallel()
	const updates = 200
	synctest.Test(t, func(t *testing.T) {
		d := &distant{entity: entity.Entity{ID: "ada", Attributes: record.Attributes(`{}`)}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // as in the API
		defer cancel()
		var applied atomic.Int64
		var wg sync.WaitGroup
		for i := range updates {
			wg.Go(func() {
				switch _, err := entity.Update(ctx, d, "default", "ada", record.Attributes(fmt.Sprintf(`{"%d":true}`, i))); {
				case err == nil:
					applied.Add(1)
				case record.CodeOf(err) != record.Unavailable:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		members, err := record.Pairs(d.entity.Attributes)
		if err != nil || len(members) != int(applied.Load()) || len(members) < updates*3/4 {
			t.Errorf("%d updates were applied, %d are stored, error %v", applied.Load(), len(members), err)
		}
		if d.replacements > 3*updates {
			t.Errorf("%d updates made %d replacements", updates, d.replacements)
		}
		t.Logf("%d updates, %d applied, %d replacements", updates, applied.Load(), d.replacements)
	})
}

// unknown is a Store that performs each write but returns an error.
type unknown struct {
	entity.Store
	writes int
}

func (u *unknown) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	u.writes++
	if _, _, err := u.Store.Write(ctx, workspace, w); err != nil {
		return entity.Change{}, false, err
	}
	return entity.Change{}, false, record.UnavailableError("replace entity", context.DeadlineExceeded)
}

// A second merge could undo what other requests have changed in the meantime.
func TestAnUpdateOfUnknownOutcomeIsNotMergedAgain(t *testing.T) {
	t.Parallel()
	u := &unknown{Store: open(t, `{"a":1}`)}
	if _, err := entity.Update(t.Context(), u, "default", "ada", record.Attributes(`{"a":2}`)); record.CodeOf(err) != record.Unavailable || u.writes != 1 {
		t.Errorf("%d writes, error %v", u.writes, err)
	}
}
