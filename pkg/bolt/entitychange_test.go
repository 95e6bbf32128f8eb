package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Each write, of any kind, removes at most ten expired tombstones and adds at most one.
func TestWritesSweepExpiredTombstones(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	at := begin
	s := openIn(t, openDB(t), entity.Clock{Now: func() time.Time { return at }})
	for i := range 30 {
		id := fmt.Sprintf("%02d", i)
		create(t, s, id)
		at = begin.Add(time.Duration(i) * time.Hour)
		if err := entity.Delete(t.Context(), s, "default", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	at = begin.Add(entity.TombstoneAge + 20*time.Hour + time.Minute) // 21 tombstones have expired
	for i, want := range []int{20 + 1, 10 + 2, 9 + 3, 9 + 4} {
		create(t, s, fmt.Sprintf("later-%d", i))
		page, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 200})
		if err != nil || len(page.Records) != want {
			t.Errorf("after %d creates %d changes are left, error %v; want %d", i+1, len(page.Records), err, want)
		}
	}
}

func TestAnEntityThatIsCreatedAgainDoesNotExpire(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := openIn(t, openDB(t), entity.Clock{Now: func() time.Time { return at }})
	create(t, s, "a")
	if err := entity.Delete(t.Context(), s, "default", "a", nil); err != nil {
		t.Fatal(err)
	}
	at = at.Add(2 * entity.TombstoneAge)
	create(t, s, "a")
	create(t, s, "b")
	if _, err := s.Get(t.Context(), "default", "a"); err != nil {
		t.Error(err)
	}
}

// Calls to Create wait while the test holds the write transaction. A record's timestamp must be
// the time when it is stored: a sync that ended during the wait would never return a record
// with an earlier timestamp.
func TestAWriteThatWaitsHasTheStampOfItsTransaction(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	before, after := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 1, 0, 0, time.UTC)
	now := before
	clock := func() time.Time { return now } // called only inside a write transaction
	entities := openIn(t, db, entity.Clock{Now: clock})
	events, err := bolt.NewEvents(db, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	stamps := make(chan record.Time, 2)
	go func() {
		e, _, err := entity.Create(t.Context(), entities, "default", entity.Draft{ID: "a", Type: "t", Attributes: record.Attributes(`{}`)})
		if err != nil {
			t.Error(err)
		}
		stamps <- e.UpdatedAt
	}()
	go func() {
		e, _, err := event.Create(t.Context(), events, "default", event.Draft{ID: "a", Name: "n"})
		if err != nil {
			t.Error(err)
		}
		stamps <- e.CreatedAt
	}()
	select {
	case <-stamps:
		t.Fatal("a write did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	now = after
	if err := writer.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if stamp := <-stamps; stamp != record.TimeOf(after) {
			t.Errorf("the stamp is %s, want %s", stamp, record.TimeOf(after))
		}
	}
}

// lateContext reports that it is done from the second call to Err onward.
type lateContext struct {
	context.Context
	looks int
}

func (c *lateContext) Err() error {
	if c.looks++; c.looks > 1 {
		return context.Canceled
	}
	return nil
}

func TestAWriteThatComesTooLateIsNotStored(t *testing.T) {
	t.Parallel()
	s := openIn(t, openDB(t), entity.Clock{})
	d := entity.Draft{ID: "a"}
	if _, _, err := entity.Create(&lateContext{Context: t.Context()}, s, "default", d); record.CodeOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Get(t.Context(), "default", "a"); record.CodeOf(err) != record.NotFound {
		t.Errorf("get: %v", err)
	}
}

// A page skips at most a megabyte of tombstones, so it may be empty.
func TestAListByIDPassesTombstonesInPages(t *testing.T) {
	t.Parallel()
	const tombstones = 9_000
	s := openIn(t, openDB(t), entity.Clock{})
	var erasures errgroup.Group
	erasures.SetLimit(32) // concurrent erasures share transactions
	for i := range tombstones {
		erasures.Go(func() error {
			_, _, err := s.Write(t.Context(), "default", entity.Erasure(fmt.Sprintf("gone-%0120d", i), record.TimeOf(time.Now()), time.Time{}))
			return err
		})
	}
	if err := erasures.Wait(); err != nil {
		t.Fatal(err)
	}
	create(t, s, "first")
	create(t, s, "last")
	var got []string
	pages, empty := 0, 0
	for q := (entity.Query{Limit: 10}); ; pages++ {
		page, err := s.List(t.Context(), "default", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Records {
			got = append(got, e.ID)
		}
		if page.Next == "" {
			break
		}
		if len(page.Records) == 0 {
			empty++
		}
		if page.Next <= q.Cursor {
			t.Fatalf("the page at %q leads to %q", q.Cursor, page.Next)
		}
		q.Cursor = page.Next
	}
	if fmt.Sprint(got) != "[first last]" || pages < 2 || pages > 5 || empty == 0 {
		t.Errorf("got %v on %d pages, %d of them empty", got, pages, empty)
	}
}
