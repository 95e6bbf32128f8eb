package bolt_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openDB(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "records.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openIn(t *testing.T, db *bbolt.DB, clock entity.Clock) entity.Store {
	t.Helper()
	s, err := bolt.NewEntities(db, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// past writes its records with any stamps, as the suites need them. The stores never do that: their
// time does not go back behind the newest stamp in the file, so past removes that before each write.
type past struct {
	db *bbolt.DB
	mu *sync.Mutex
}

func newPast(t *testing.T) past { return past{openDB(t), new(sync.Mutex)} }

func (p past) forget() (unlock func()) {
	p.mu.Lock()
	err := p.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("stamps")) == nil {
			return nil
		}
		return tx.DeleteBucket([]byte("stamps"))
	})
	if err != nil {
		panic(err)
	}
	return p.mu.Unlock
}

type pastEntities struct {
	entity.Store
	past
}

func (s pastEntities) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	defer s.forget()()
	return s.Store.Write(ctx, workspace, w)
}

func openEntities(t *testing.T) func(entity.Clock) (entity.Store, error) {
	p := newPast(t)
	return func(clock entity.Clock) (entity.Store, error) {
		s, err := bolt.NewEntities(p.db, clock, nil)
		return pastEntities{s, p}, err
	}
}

func TestEntities(t *testing.T) { storetest.Entities(t, openEntities) }

func TestRaces(t *testing.T) {
	t.Parallel()
	storetest.EntityRaces(t, func(t *testing.T) func(entity.Clock) (entity.Store, error) {
		db := openDB(t)
		return func(clock entity.Clock) (entity.Store, error) { return bolt.NewEntities(db, clock, nil) }
	})
}

func TestWalksOfEntities(t *testing.T) {
	t.Parallel()
	storetest.WalkEntities(t, openEntities)
}

// bbolt allows only one write transaction at a time. An update that is invalid or changes nothing
// never begins one.
func TestAnUpdateWithNothingToStoreBeginsNoTransaction(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	s := openIn(t, db, entity.Clock{})
	create(t, s, "a")
	writer, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback() //nolint:errcheck // nothing was written
	for patch, invalid := range map[string]bool{`{"a":1}`: false, `{"b":"` + strings.Repeat("x", record.MaxAttributesBytes) + `"}`: true} {
		updated := make(chan error, 1)
		go func() {
			_, err := entity.Update(t.Context(), s, "default", "a", record.Attributes(patch), nil)
			updated <- err
		}()
		select {
		case err := <-updated:
			if (err != nil) != invalid || invalid && record.CodeOf(err) != record.Invalid {
				t.Errorf("%.20s: error %v", patch, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%.20s: the update waits for another writer", patch)
		}
	}
}

// Updates are merged in the write transaction, so none loses a race.
func TestManyUpdatesAtOnce(t *testing.T) {
	t.Parallel()
	const clients = 100
	s := openIn(t, openDB(t), entity.Clock{})
	create(t, s, "a")
	var updates sync.WaitGroup
	for i := range clients {
		updates.Go(func() {
			if _, err := entity.Update(t.Context(), s, "default", "a", record.Attributes(fmt.Sprintf(`{"%d":1}`, i)), nil); err != nil {
				t.Error(err)
			}
		})
	}
	updates.Wait()
	e, err := s.Get(t.Context(), "default", "a")
	if members, _ := record.Pairs(e.Attributes); err != nil || len(members) != 1+clients || e.Revision != 1+clients {
		t.Errorf("%d attributes, revision %d, error %v", len(members), e.Revision, err)
	}
}

func TestAnUpdateThatChangesNothingWritesNothing(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	s := openIn(t, db, entity.Clock{})
	create(t, s, "a")
	for _, tt := range []struct {
		patch  string
		writes int
	}{{`{}`, 0}, {`{"a":1}`, 0}, {`{"b":null}`, 0}, {`{"a":2}`, 1}, {`{"a":2}`, 0}} {
		before := transactions(t, db)
		if _, err := entity.Update(t.Context(), s, "default", "a", record.Attributes(tt.patch), nil); err != nil {
			t.Fatal(err)
		}
		if n := transactions(t, db) - before; n != tt.writes {
			t.Errorf("%s: %d writing transactions, want %d", tt.patch, n, tt.writes)
		}
	}
}

// transactions returns the number of write transactions so far.
func transactions(t *testing.T, db *bbolt.DB) (n int) {
	t.Helper()
	if err := db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func create(t *testing.T, s entity.Store, id string) {
	t.Helper()
	d := entity.Draft{ID: id, Type: "account", Attributes: record.Attributes(`{"a":1}`)}
	if _, created, err := entity.Create(t.Context(), s, "default", d); !created || err != nil {
		t.Fatalf("created %v, error %v", created, err)
	}
}
