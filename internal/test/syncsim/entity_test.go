package syncsim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

const (
	changers    = 8
	changesEach = 8
)

// TestConcurrentChanges lets clients increment a number with conditions, merge, create, delete and
// erase two entities at once, while calls and responses get lost, attempts arrive after their
// repetition, clocks differ by up to 4 s and tombstones expire. Nothing that was acknowledged may
// get lost or happen twice.
func TestConcurrentChanges(t *testing.T) {
	n := seedCount(t) / 4
	const shards = 4
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < n; seed += shards {
				if wrong := simulateChanges(t, uint64(seed)); len(wrong) > 0 {
					t.Fatalf("seed %d: %v", seed, wrong)
				}
			}
		})
	}
}

// TestABusyEntity lets many clients update one entity at once. All succeed within the time of a
// request, and with few attempts.
func TestABusyEntity(t *testing.T) {
	t.Parallel()
	const clients = 150
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.calm = true
		writes := 0
		w.applied = func(string, item, item) {}
		w.attempted = func() { writes++ }
		s, _ := w.stores(t, 0)
		if _, _, err := entity.Create(t.Context(), s, workspace, entity.Draft{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), record.WriteTimeout) // as in the API
		defer cancel()
		var calls sync.WaitGroup
		for i := range clients {
			calls.Go(func() {
				if _, err := entity.Update(ctx, s, workspace, "a", record.Attributes(fmt.Sprintf(`{"%d":1}`, i)), nil); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		calls.Wait()
		e, err := s.Get(t.Context(), workspace, "a")
		if members, _ := record.Pairs(e.Attributes); len(members) != clients || e.Revision != 1+clients || writes > 12*clients {
			t.Errorf("%d attributes, revision %d, error %v, %d attempts", len(members), e.Revision, err, writes)
		}
		t.Logf("%d updates in %s by %d attempts", clients, time.Since(began), writes)
	})
}

// ledger checks each change of entities as the engine applies it.
type ledger struct {
	mu      sync.Mutex
	wrong   []string
	tokens  map[string]bool // of the changes so far
	applied map[string]int  // number of increments, by id
	deleted map[string]bool // ids and revisions that deletions have replaced
}

func (l *ledger) fail(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *ledger) wantDeleted(id string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.deleted[fmt.Sprint(id, revision)] {
		l.fail("%s: a deletion of the revision %d was acknowledged, but not applied", id, revision)
	}
}

// note checks that a change follows from the one before it.
func (l *ledger) note(old, it item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, token := text(it, "id"), fmt.Sprint(it["token"])
	stamp, was := text(it, "change"), text(old, "change")
	if l.tokens[token] {
		l.fail("%s: the change with revision %d was applied twice", id, number(it, "revision"))
	}
	l.tokens[token] = true
	if number(it, "revision") != number(old, "revision")+1 {
		l.fail("%s: revision %d follows %d", id, number(it, "revision"), number(old, "revision"))
	}
	if old != nil && stamp < was {
		l.fail("%s: stamp %s follows %s", id, stamp, was)
	}
	wasLive, isLive := old != nil && old["expires_at"] == nil, it["expires_at"] == nil
	if !wasLive && !isLive && text(it, "erased_at") <= text(old, "erased_at") {
		l.fail("%s: what was not live was deleted", id)
	}
	if wasLive && isLive && text(it, "created_at") != text(old, "created_at") {
		l.fail("%s: what was live was created", id)
	}
	if wasLive && !isLive {
		l.deleted[fmt.Sprint(id, number(old, "revision"))] = true
	}
	if wasLive && isLive {
		l.merged(id, attributesOf(old), attributesOf(it))
	}
}

// merged checks that one attribute is greater than before, and that all others are the same.
func (l *ledger) merged(id string, was, now map[string]int) {
	changed := 0
	for name, n := range now {
		if n != was[name] {
			changed++
		}
		if n < was[name] {
			l.fail("%s: %s went from %d back to %d", id, name, was[name], n)
		}
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			l.fail("%s: %s is gone", id, name)
		}
	}
	if changed != 1 {
		l.fail("%s: %d attributes changed: %v became %v", id, changed, was, now)
	}
	if now["n"] == was["n"]+1 {
		l.applied[id]++
	}
}

func attributesOf(it item) map[string]int {
	all := make(map[string]int)
	members, err := record.Pairs([]byte(text(it, "attributes")))
	if err != nil {
		panic(err)
	}
	for _, m := range members {
		if all[m.Name], err = strconv.Atoi(string(m.Value)); err != nil {
			panic(err)
		}
	}
	return all
}

func simulateChanges(t *testing.T, seed uint64) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		l := &ledger{tokens: make(map[string]bool), applied: make(map[string]int), deleted: make(map[string]bool)}
		w.late, w.applied = true, func(_ string, old, it item) { l.note(old, it) }
		stop := make(chan struct{})
		var expiry, clients sync.WaitGroup
		expiry.Go(func() { w.expire(stop) })
		var mu sync.Mutex
		acknowledged, unknown := make(map[string]int), make(map[string]int)
		for i := range changers {
			clients.Go(func() {
				c := changer{t: t, rng: rand.New(rand.NewPCG(seed, uint64(1+i))), ledger: l, number: i}
				c.store, _ = w.stores(t, extreme(c.rng, -record.MaxClockSkew, record.MaxClockSkew))
				for n := range changesEach {
					time.Sleep(between(c.rng, time.Second))
					id := string(rune('a' + c.rng.IntN(4)/3))
					counted, err := c.change(id, n)
					mu.Lock()
					switch {
					case counted && err == nil:
						acknowledged[id]++
					case counted && record.CodeOf(err) == record.Unavailable:
						unknown[id]++
					}
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		time.Sleep(record.WriteTimeout + record.MaxTransit) // until the last attempts have arrived
		close(stop)
		expiry.Wait()
		for _, id := range []string{"a", "b"} {
			if n := l.applied[id]; n < acknowledged[id] || n > acknowledged[id]+unknown[id] {
				l.fail("%s: %d increments, %d acknowledged and %d of unknown outcome", id, n, acknowledged[id], unknown[id])
			}
		}
		wrong = l.wrong
	})
	return wrong
}

type changer struct {
	t      *testing.T
	rng    *rand.Rand
	store  entity.Store
	ledger *ledger
	number int
}

// change makes a random change. counted says whether it is an increment that was sent.
func (c *changer) change(id string, n int) (counted bool, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), record.WriteTimeout) // as in the API
	defer cancel()
	switch c.rng.IntN(14) - 2 {
	case -2, -1, 0, 1, 2, 3:
		e, err := c.store.Get(ctx, workspace, id)
		if err != nil {
			return false, nil
		}
		time.Sleep(between(c.rng, time.Second))
		members := attributesOf(item{"attributes": &types.AttributeValueMemberS{Value: string(e.Attributes)}})
		patch := record.Attributes(fmt.Sprintf(`{"n":%d}`, members["n"]+1))
		_, err = entity.Update(ctx, c.store, workspace, id, patch, &entity.Condition{Revision: e.Revision})
		return true, err
	case 4:
		patch := record.Attributes(fmt.Sprintf(`{"w%d":%d}`, c.number, n+1))
		_, err = entity.Update(ctx, c.store, workspace, id, patch, nil)
	case 5, 6:
		d := entity.Draft{ID: id, Attributes: record.Attributes(`{"n":0}`)}
		_, _, err = entity.Create(ctx, c.store, workspace, d)
	case 7:
		err = entity.Delete(ctx, c.store, workspace, id, nil)
	case 8:
		read, err := c.store.Get(ctx, workspace, id)
		if err != nil {
			return false, nil
		}
		time.Sleep(between(c.rng, time.Second))
		if err = entity.Delete(ctx, c.store, workspace, id, &entity.Condition{Revision: read.Revision}); err == nil {
			c.ledger.wantDeleted(id, read.Revision)
		}
	case 9:
		_, _, err = c.store.Write(ctx, workspace, entity.Erasure(id, record.TimeOf(time.Now()), time.Time{}))
	case 10, 11:
		var read map[string]entity.Change
		if read, err = c.store.GetEach(ctx, workspace, []string{id}); err == nil {
			time.Sleep(between(c.rng, time.Second))
			latest := read[id]
			d := entity.Draft{ID: id, Attributes: record.Attributes(fmt.Sprintf(`{"w%d":%d}`, c.number, n+1)), Deleted: c.rng.IntN(4) == 0}
			err = entity.Upsert(ctx, c.store, workspace, id, []entity.Draft{d}, &latest).Errs[0]
		}
	}
	return false, err
}

// expire removes the tombstones of entities that nobody has changed for as long as an attempt can
// be under way, as if 30 days had passed.
func (w *world) expire(stop <-chan struct{}) {
	const alive = record.WriteTimeout + record.MaxTransit + 2*record.MaxClockSkew
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		w.mu.Lock()
		for id, it := range w.tables["entities"] {
			at, err := record.ParsePosition(text(it, "change"))
			if err == nil && it["expires_at"] != nil && time.Since(at.At.Time()) > alive {
				delete(w.tables["entities"], id)
			}
		}
		w.mu.Unlock()
	}
}
