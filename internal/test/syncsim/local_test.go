package syncsim_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

const (
	localSteps = 120
	localSeeds = 100 // unless the environment variable SYNC_SEEDS is set
)

// TestLocalSimulation is like TestSimulation, for the store in bbolt. Its clock is set forward and
// back by a second and an hour, and transactions take long between their stamp and their commit,
// while readers read on. Whatever it does, a page has every change before its synced_until, no later
// change is stamped before that, and a walk has whatever existed when it began.
func TestLocalSimulation(t *testing.T) {
	t.Parallel()
	n := localSeeds
	switch {
	case os.Getenv("SYNC_SEEDS") != "":
		n = seedCount(t)
	case testing.Short() || raceEnabled():
		n = localSeeds / 4
	}
	for seed := range uint64(n) {
		if wrong := simulateLocal(t, seed, rules{}); len(wrong) > 0 {
			t.Fatalf("seed %d: %v", seed, wrong)
		}
	}
}

func TestLocalSimulationFindsMistakes(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]rules{
		"a walk ends before what changes a moment ago": {bound: true},
		"what is settled is the clock":                 {settled: func(_, after record.Time) record.Time { return after }},
		"what is settled lags behind the clock":        {settled: func(_, after record.Time) record.Time { return plus(after, -record.SyncLag) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(localSeeds) {
				if wrong := simulateLocal(t, seed, by); len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("no seed of %d finds it", localSeeds)
		})
	}
}

// local is a store, its history and its clock.
type local struct {
	*rand.Rand
	store  entity.Store
	now    time.Time
	latest map[string]entity.Change // as committed
	claims record.Time              // latest synced_until of any page
	wrong  []string
	quiet  bool // whether walks are no longer interrupted

	pauseAt int // 1 if the next reading of the clock pauses its transaction
	paused  chan struct{}
	resume  chan struct{}
}

func (l *local) fail(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// clock is read once, in a write transaction.
func (l *local) clock() time.Time {
	now := l.now
	if l.pauseAt--; l.pauseAt == 0 {
		l.paused <- struct{}{}
		<-l.resume
	}
	return now
}

func simulateLocal(t *testing.T, seed uint64, by rules) []string {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"+strconv.FormatUint(seed, 10)), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a temporary file
	l := &local{
		Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		latest: make(map[string]entity.Change), paused: make(chan struct{}), resume: make(chan struct{}),
	}
	if l.store, err = bolt.NewEntities(db, entity.Clock{Now: l.clock}, nil); err != nil {
		t.Fatal(err)
	}
	all := []*localReader{{local: l, rules: by, copied: map[string]entity.Change{}}, {local: l, rules: by, copied: map[string]entity.Change{}}}
	for range localSteps {
		l.step()
		switch l.IntN(5) {
		case 0, 1:
			l.write(t, all, "busy")
		case 2:
			l.write(t, all, string(rune('a'+l.IntN(5))))
		default:
			all[l.IntN(len(all))].page(t)
		}
	}
	l.quiet = true
	for _, r := range all {
		for ended := 0; ended < 2; { // the walk under way, and one more
			if r.page(t); r.walk == nil {
				ended++
			}
		}
		for id, c := range l.latest {
			if r.copied[id].Revision != c.Revision {
				l.fail("at the end, the copy of %s has revision %d, want %d", id, r.copied[id].Revision, c.Revision)
			}
		}
	}
	return l.wrong
}

// step lets time pass, and sometimes sets the clock.
func (l *local) step() {
	l.now = l.now.Add(between(l.Rand, 300*time.Millisecond))
	if l.IntN(12) == 0 {
		l.now = l.now.Add([]time.Duration{-time.Hour, -time.Second, time.Second, time.Hour}[l.IntN(4)])
	}
}

// write changes or deletes an entity. The transaction may take long: others read meanwhile.
func (l *local) write(t *testing.T, all []*localReader, id string) {
	done := make(chan error)
	l.pauseAt = l.IntN(2)
	remove, n := l.IntN(6) == 0, l.Int()
	go func() {
		if remove {
			done <- entity.Delete(t.Context(), l.store, workspace, id, nil)
			return
		}
		d := entity.Draft{ID: id, Attributes: record.Attributes(fmt.Sprintf(`{"n":%d}`, n))}
		done <- entity.Upsert(t.Context(), l.store, workspace, id, []entity.Draft{d}, nil).Errs[0]
	}()
	var err error
	select {
	case err = <-done:
	case <-l.paused:
		for range l.IntN(3) {
			l.step()
			all[l.IntN(len(all))].page(t)
		}
		l.resume <- struct{}{}
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	l.pauseAt = 0
	found, err := l.store.GetEach(t.Context(), workspace, []string{id})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := found[id]; ok && c.Revision != l.latest[id].Revision {
		if at := c.SyncPosition().At; at.Compare(l.claims) < 0 {
			l.fail("%s was changed at %s, after a page was synced until %s", id, at, l.claims)
		}
		l.latest[id] = c
	}
}

// localReader keeps a copy.
type localReader struct {
	*local
	rules
	copied map[string]entity.Change
	since  record.Time
	walk   *walking
	old    map[string]int64 // revisions of what existed when the walk began
}

// page reads the next page of the walk, and begins one if there is none.
func (r *localReader) page(t *testing.T) {
	t.Helper()
	if r.walk == nil {
		r.walk = &walking{q: record.SyncQuery{Since: r.since}, bound: record.TimeOf(r.now.Add(-record.SyncLag)), returned: make(map[string]record.Time)}
		r.old = make(map[string]int64)
		for id, c := range r.latest {
			if c.SyncPosition().At.Compare(r.since) >= 0 {
				r.old[id] = c.Revision
			}
		}
	}
	w := r.walk
	w.q.Limit = 1 + r.IntN(3)
	page, err := r.store.Changes(t.Context(), workspace, w.q)
	if err != nil {
		t.Fatal(err)
	}
	if r.bound {
		page = record.Filter(page, func(c entity.Change) bool { return c.SyncPosition().At.Compare(w.bound) < 0 })
	}
	for _, c := range page.Records {
		r.copied[c.ID] = c
		if old, ok := r.old[c.ID]; ok && c.Revision >= old {
			delete(r.old, c.ID)
		}
	}
	until := w.until
	if until == nil {
		at, fixed := r.of(w.q, page.Next, page.Settled, record.TimeOf(r.now))
		if until = &at; fixed {
			w.until = until
		}
	}
	for id, c := range r.latest {
		if c.SyncPosition().At.Compare(*until) < 0 && r.copied[id].Revision != c.Revision {
			r.fail("page until %s: the copy of %s has revision %d, the store %d of %s", until, id, r.copied[id].Revision, c.Revision, c.SyncPosition().At)
		}
	}
	r.since, r.claims = *until, maxTime(r.claims, *until)
	if w.q.Cursor = page.Next; page.Next == "" {
		for id := range maps.Keys(r.old) {
			r.fail("a walk from %s lacks %s", w.q.Since, id)
		}
		r.walk = nil
	} else if !r.quiet && r.IntN(20) == 0 {
		r.walk = nil // interrupted; the next one starts at the last synced_until
	}
}
