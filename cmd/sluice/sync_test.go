package main

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Config{MaxTries: 50, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The changes are read at the default limits. The environment variables SYNC_ENTITIES and
// SYNC_CHANGES set how many entities exist and how many of them change.
func TestChangesAmongManyEntitiesAreReadInSeconds(t *testing.T) {
	t.Parallel()
	total, changed := 5000, 300
	for variable, n := range map[string]*int{"SYNC_ENTITIES": &total, "SYNC_CHANGES": &changed} {
		if text := os.Getenv(variable); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	began := record.TimeOf(time.Now())
	fillEntities(t, dir, total, changed, began)
	s := start(t, dir)
	c, err := client.New(s.url, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	read := 0
	q := client.EntityChangeQuery{UpdatedSince: began, Limit: 200}
	for complete := false; !complete; {
		page, err := c.ListEntityChanges(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if read, complete = read+len(page.Data), page.NextCursor == nil; !complete {
			q.Cursor = *page.NextCursor
		}
	}
	took := time.Since(start)
	t.Logf("%d changes of %d entities were read in %s", read, total, took)
	if read != changed || took > 10*time.Second {
		t.Errorf("%d changes were read in %s, want %d in 10s", read, took, changed)
	}
}

// fillEntities stores n entities in the data directory dir, and updates nUpdated of them at
// updatedAt, an hour after their creation. No server may be using the directory.
func fillEntities(t *testing.T, dir string, n, nUpdated int, updatedAt record.Time) {
	t.Helper()
	id := func(i int) string { return fmt.Sprintf("%07d", i) }
	fill(t, dir, n, func() time.Time { return updatedAt.Time().Add(-time.Hour) }, func(s *bolt.Stores, i int) error {
		d := entity.Draft{ID: id(i), Type: "person", Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, i))}
		_, _, err := entity.Create(t.Context(), s.Entities, "default", d)
		return err
	})
	fill(t, dir, nUpdated, updatedAt.Time, func(s *bolt.Stores, i int) error {
		_, err := entity.Update(t.Context(), s.Entities, "default", id(i*(n/nUpdated)), record.Attributes(`{"changed":true}`), nil)
		return err
	})
}
