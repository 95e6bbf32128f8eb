package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/pkg/record"
	"sluice/pkg/snapshot"
)

// TakeUp is how long to wait after a declaration changes. By then, every process follows the
// change in its writes, and every index contains all earlier writes.
const TakeUp = snapshot.MaxAge + record.SyncLag

var (
	ErrNotFound = errors.New("there is no such index")
	ErrRemoving = errors.New("the index is being removed; wait until that is complete")
)

// ConflictError says why a declaration does not fit to those that exist.
type ConflictError struct{ detail string }

func (e *ConflictError) Error() string { return e.detail }

func conflictf(format string, args ...any) error { return &ConflictError{fmt.Sprintf(format, args...)} }

// tries is how many times Add and Remove try if other processes keep changing declarations. A
// declaration changes a few times a second while its index is being built.
const tries = 5

func retry(change func() (Declaration, error)) (d Declaration, err error) {
	for range tries {
		if d, err = change(); !errors.Is(err, ErrChanged) {
			break
		}
	}
	return d, err
}

// Add stores a declaration, or returns the existing declaration. It returns
// ErrRemoving if the existing declaration is being removed. That is all there is to do: the process
// that builds indexes finds the declaration (see Builder.Work). If the existing one is not ready, it
// takes over a Rate.
func Add(ctx context.Context, s Store, d Declaration) (Declaration, error) {
	if err := d.Validate(); err != nil {
		return d, err
	}
	return retry(func() (Declaration, error) { return add(ctx, s, d) })
}

func add(ctx context.Context, s Store, d Declaration) (Declaration, error) {
	all, err := s.List(ctx)
	if err != nil {
		return d, err
	}
	var names []string
	var free []int
	for place := range Places {
		free = append(free, place+1)
	}
	others := NewSet(all).Of(d.Workspace, d.Type)
	for _, other := range others {
		switch {
		case !other.On(d.Fields.Names()):
		case other.State == Removing:
			return d, ErrRemoving
		case other.Fields != d.Fields:
			return d, conflictf("there is already an index of %s, as %s; remove it first", d.Name(), other.Fields)
		case other.State != Ready && d.Rate != 0 && d.Rate != other.Rate:
			other.Rate = d.Rate
			return s.Put(ctx, other)
		default:
			return other, nil
		}
		names = append(names, strings.Join(other.Fields.Names(), "+"))
		free = slices.DeleteFunc(free, func(place int) bool { return place == other.Place })
	}
	switch {
	case len(free) == 0:
		return d, conflictf("a type can have %d indexes, and %s has %s; remove one first", Places, d.Type, strings.Join(names, ", "))
	case len(all) >= MaxDeclarations:
		return d, conflictf("the service already has the maximum of %d indexes; remove some", MaxDeclarations)
	}
	d.Place, d.State, d.Build, d.Revision = free[0], Writing, Build{}, 0
	return s.Add(ctx, d, others)
}

// Remove sets the state of a declaration to Removing, or returns ErrNotFound if there is none. The
// process that builds indexes then removes the keys and the declaration.
func Remove(ctx context.Context, s Store, workspace, typ string, attributes ...string) (Declaration, error) {
	return retry(func() (Declaration, error) { return remove(ctx, s, workspace, typ, attributes) })
}

func remove(ctx context.Context, s Store, workspace, typ string, attributes []string) (Declaration, error) {
	all, err := s.List(ctx)
	if err != nil {
		return Declaration{}, err
	}
	for _, d := range NewSet(all).Of(workspace, typ) {
		if !d.On(attributes) {
			continue
		}
		if d.State == Removing {
			return d, nil
		}
		d.State, d.Build = Removing, Build{}
		return s.Put(ctx, d)
	}
	return Declaration{}, ErrNotFound
}

// Keeper stores the keys of indexes alongside the records.
type Keeper interface {
	// Expect returns the approximate number of records that a build of d reads.
	Expect(ctx context.Context, d Declaration) (int64, error)

	// BuildKeys adds keys of d to at most limit entities of d.Type, or events, starting at cursor, which is the
	// Next of an earlier Step or "". It takes fewer if they fill a page sooner (record.PageFull). If
	// it fails, some of the keys may already be stored.
	BuildKeys(ctx context.Context, d Declaration, cursor record.Cursor, limit int) (Step, error)

	// ClearKeys removes up to limit keys of d, starting at cursor, which is the next of an earlier
	// call or "". next is "" if no more keys follow.
	ClearKeys(ctx context.Context, d Declaration, cursor record.Cursor, limit int) (next record.Cursor, err error)
}

type Step struct {
	Indexed, Absent, Unfit int64         // as in Build
	Next                   record.Cursor // where the next step starts; "" if no more entities follow
}

// Count counts an entity according to the results of Declaration.Key.
func (s *Step) Count(key Key, present bool) {
	switch {
	case key != Key{}:
		s.Indexed++
	case present:
		s.Unfit++
	default:
		s.Absent++
	}
}

// BuilderConfig tunes a Builder. Its zero value is ready to use.
type BuilderConfig struct {
	TakeUp time.Duration    // how long to wait before building or removing keys; 0 means the constant TakeUp
	Page   int              // maximum number of records whose keys are added or removed in one call of Step; 0 means 100
	Now    func() time.Time // time.Now by default
}

// DefaultRate leaves three quarters of a DynamoDB partition's capacity to other writers. Each
// key takes one write unit in the partition of the entities and one in that of the index.
const DefaultRate = 250

// Builder moves declarations through their states, building and removing keys.
type Builder struct {
	store  Store
	keeper Keeper
	cfg    BuilderConfig
}

func NewBuilder(store Store, keeper Keeper, cfg BuilderConfig) *Builder {
	cfg.TakeUp = cmp.Or(cfg.TakeUp, TakeUp)
	cfg.Page = cmp.Or(cfg.Page, 100)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Builder{store, keeper, cfg}
}

// Work builds and removes indexes until ctx is done or nothing is left to do but to wait for TakeUp.
// So it has to be called again and again: everything that it knows is in the declarations, and
// another call, in this process or another, continues. It completes the page that it works on after
// ctx is done. A declaration that fails is left to the next call.
func (b *Builder) Work(ctx context.Context) error {
	var failed []error
	skip := make(map[string]bool) // by Declaration.ID
	for ctx.Err() == nil {
		all, err := b.store.List(ctx)
		if ctx.Err() != nil {
			break // perhaps in the middle of List, which is no failure
		}
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		worked := false
		for _, d := range all {
			if d.State == Ready || skip[d.ID()] || ctx.Err() != nil {
				continue
			}
			begun := time.Now()
			stepped, err := b.stepIfDue(context.WithoutCancel(ctx), d)
			switch {
			case errors.Is(err, ErrChanged): // by another process, which may be about to end
				worked = true
				rest(ctx, time.Second)
			case err != nil:
				skip[d.ID()] = true
				failed = append(failed, fmt.Errorf("index %s of %s: %w", d.Name(), d.Workspace, err))
			case stepped:
				worked = true
				rest(ctx, time.Until(begun.Add(time.Second*time.Duration(b.cfg.Page)/time.Duration(cmp.Or(d.Rate, DefaultRate)))))
			}
		}
		if !worked {
			break
		}
	}
	return errors.Join(failed...)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// stepIfDue calls Step unless processes may not have taken up the state of d. The wait begins when
// a Builder first sees the state, because the clock of whoever stored it need not be right.
func (b *Builder) stepIfDue(ctx context.Context, d Declaration) (stepped bool, err error) {
	now := record.TimeOf(b.cfg.Now())
	switch {
	case d.Begun():
	case d.Build.Seen == record.Time{}:
		d.Build.Seen = now
		_, err = b.store.Put(ctx, d)
		return false, err
	case now.Time().Sub(d.Build.Seen.Time()) < b.cfg.TakeUp:
		return false, nil
	}
	_, _, err = b.Step(ctx, d)
	return err == nil, err
}

// Step takes d to the next state, or adds or removes one page of its keys. removed says
// whether d has been removed. In the states Writing and Removing, the caller must have waited
// for TakeUp. If d differs from the stored declaration, Step changes nothing and returns
// ErrChanged: a process that was suspended must not touch the keys of a later declaration.
func (b *Builder) Step(ctx context.Context, d Declaration) (_ Declaration, removed bool, err error) {
	all, err := b.store.List(ctx)
	if err != nil {
		return d, false, err
	}
	if !slices.Contains(all, d) {
		return d, false, ErrChanged
	}
	switch d.State {
	case Writing:
		d.State, d.Build = Building, Build{}
		d.Build.Expected, err = b.keeper.Expect(ctx, d)
	case Building:
		err = b.build(ctx, &d)
	case Removing:
		d.Build.Checkpoint, err = b.keeper.ClearKeys(ctx, d, d.Build.Checkpoint, b.cfg.Page)
		if err == nil && d.Build.Checkpoint == "" {
			return d, true, b.store.Remove(ctx, d)
		}
	}
	if err != nil {
		return d, false, err
	}
	d, err = b.store.Put(ctx, d)
	return d, false, err
}

func (b *Builder) build(ctx context.Context, d *Declaration) error {
	step, err := b.keeper.BuildKeys(ctx, *d, d.Build.Checkpoint, b.cfg.Page)
	if err != nil {
		return err
	}
	d.Build.Indexed += step.Indexed
	d.Build.Absent += step.Absent
	d.Build.Unfit += step.Unfit
	d.Build.Read += step.Indexed + step.Absent + step.Unfit
	if d.Build.Checkpoint = step.Next; step.Next == "" {
		d.State = Ready
	}
	return nil
}
