package syncsim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// entry is a record in an index. A read returns the record if the time of the read is in
// [from, until).
type entry[R any] struct {
	position    string
	record      R
	from, until time.Time
}

// index is an index of a table. It shows a change with a delay of up to
// record.MaxIndexDelay.
type index[R interface{ SyncPosition() record.Position }] struct {
	entries []*entry[R]
}

func (x *index[R]) put(r R, at time.Time) {
	x.entries = append(x.entries, &entry[R]{position: r.SyncPosition().String(), record: r, from: at, until: at.AddDate(1, 0, 0)})
}

func (x *index[R]) remove(r R, at time.Time) {
	position := r.SyncPosition().String()
	for _, e := range x.entries {
		if e.position == position {
			e.until = at
		}
	}
}

func (x *index[R]) page(q record.SyncQuery, now time.Time) (page record.Page[R]) {
	low, high := q.Bounds()
	var found []*entry[R]
	for _, e := range x.entries {
		if e.position >= low && e.position <= high && !now.Before(e.from) && now.Before(e.until) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry[R]) int { return strings.Compare(a.position, b.position) })
	for i, e := range found {
		if page.More = i == q.Limit; page.More {
			return page
		}
		page.Records = append(page.Records, e.record)
	}
	return page
}

// state is a state of an entity and the time at which it was committed.
type state struct {
	entity.Change
	committed time.Time
}

// store is a store of the entities and events of one workspace behind a slow network. It
// also keeps all states of its entities. The type store implements the methods of
// entity.Store that the simulation uses. The type events implements the methods of
// event.Store.
type store struct {
	entity.Store
	mu      sync.Mutex
	rng     *rand.Rand
	history map[string][]state // by id; the last one is current
	changes index[entity.Change]
	events  map[string]event.Event
	created index[event.Event]
	back    []string // changes whose time is not later than that of the entity's previous change
}

type events struct {
	event.Store
	s *store
}

func (s *store) random(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return extreme(s.rng, 0, d)
}

// extreme returns a random duration from low to high. It often returns exactly low or
// high.
func extreme(rng *rand.Rand, low, high time.Duration) time.Duration {
	if low == high {
		return low
	}
	switch rng.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	}
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// write waits until a random time, at the latest the deadline of ctx. Then it calls commit.
// It may return an error after this call, as if the response were lost.
func (s *store) write(ctx context.Context, commit func(now time.Time)) error {
	deadline, _ := ctx.Deadline()
	time.Sleep(s.random(time.Until(deadline)))
	s.mu.Lock()
	defer s.mu.Unlock()
	commit(time.Now())
	if ctx.Err() != nil || s.rng.IntN(10) == 0 {
		return record.UnavailableError("write", errors.New("the response is lost"))
	}
	return nil
}

// current returns the current state of an entity and whether it exists.
func (s *store) current(id string) (state, bool) {
	all := s.history[id]
	if len(all) == 0 {
		return state{}, false
	}
	last := all[len(all)-1]
	return last, !last.Deleted
}

// commit makes c the current state.
func (s *store) commit(c entity.Change, now time.Time) {
	delay := func() time.Time { return now.Add(extreme(s.rng, 0, record.MaxIndexDelay)) }
	if all := s.history[c.ID]; len(all) > 0 {
		last := all[len(all)-1]
		if last.SyncPosition().At.Compare(c.SyncPosition().At) >= 0 {
			s.back = append(s.back, last.SyncPosition().String()+" before "+c.SyncPosition().String())
		}
		if !last.Deleted { // the index keeps tombstones
			s.changes.remove(last.Change, delay())
		}
	}
	s.history[c.ID] = append(s.history[c.ID], state{c, now})
	s.changes.put(c, delay())
}

func (s *store) Get(_ context.Context, _, id string) (entity.Entity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, exists := s.current(id); exists {
		return e.Entity, nil
	}
	return entity.Entity{}, record.NotFoundError("entity", id)
}

func (s *store) Create(ctx context.Context, _ string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	err = s.write(ctx, func(now time.Time) {
		last, exists := s.current(e.ID)
		if stored, created = last.Entity, !exists; exists {
			return
		}
		if stored = e; last.Deleted && last.DeletedAt.Compare(e.UpdatedAt) >= 0 {
			stored = e.After(last.DeletedAt)
		}
		s.commit(entity.Change{Entity: stored}, now)
	})
	return stored, created, err
}

func (s *store) Replace(ctx context.Context, _ string, was, e entity.Entity) (bool, error) {
	return s.change(ctx, was, entity.Change{Entity: e})
}

func (s *store) Delete(ctx context.Context, _ string, was entity.Entity, at record.Time) (bool, error) {
	return s.change(ctx, was, entity.TombstoneOf(was, at))
}

func (s *store) change(ctx context.Context, was entity.Entity, c entity.Change) (changed bool, err error) {
	err = s.write(ctx, func(now time.Time) {
		if last, exists := s.current(was.ID); exists && reflect.DeepEqual(last.Entity, was) {
			changed = true
			s.commit(c, now)
		}
	})
	return changed, err
}

func (s *store) Changes(_ context.Context, _ string, q record.SyncQuery) (record.Page[entity.Change], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes.page(q, time.Now()), nil
}

func (e events) Create(ctx context.Context, _ string, r event.Event) (event.Event, bool, error) {
	s := e.s
	err := s.write(ctx, func(now time.Time) {
		s.events[r.ID] = r
		s.created.put(r, now.Add(extreme(s.rng, 0, record.MaxIndexDelay)))
	})
	return r, true, err
}

func (e events) Changes(_ context.Context, _ string, q record.SyncQuery) (record.Page[event.Event], error) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.s.created.page(q, time.Now()), nil
}
