package localserver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/index"
)

const (
	indexPoll    = time.Second // how often the server checks whether declarations have changed
	indexTimeout = 5 * time.Second

	// indexPage is the number of entities that one transaction indexes while other writes wait,
	// unless they fill a page sooner (record.PageFull).
	indexPage = 1000

	// indexShare is the fraction of its time that the server may spend building indexes. The
	// rest is left to other writes.
	indexShare = 0.25
)

type indexBuilder interface {
	// run builds and removes indexes until ctx is done.
	run(ctx context.Context, logger *slog.Logger)
}

// tableIndexes builds and removes the indexes in tables, which other processes may write too.
type tableIndexes struct{ builder *index.Builder }

const tablePoll = 10 * time.Second

func (x tableIndexes) run(ctx context.Context, logger *slog.Logger) {
	for ctx.Err() == nil {
		if err := x.builder.Work(ctx); err != nil {
			logger.Error(cannotBuild, "error", err)
		}
		select {
		case <-time.After(tablePoll):
		case <-ctx.Done():
		}
	}
}

const cannotBuild = "cannot build an index; trying again"

// indexes builds and removes the indexes of an embedded store. Only this process writes
// entities, and each transaction uses the declarations in current, so a declaration's new
// state takes effect immediately.
type indexes struct {
	store   index.Store
	current *index.Current
	builder *index.Builder
	resting map[string]time.Time // by Declaration.ID: when to retry a failed build; other builds do not wait for it
}

func newIndexes(store index.Store, keeper index.Keeper, current *index.Current) *indexes {
	return &indexes{store, current, index.NewBuilder(store, keeper, index.BuilderConfig{Page: indexPage}), make(map[string]time.Time)}
}

// load reads the declarations, which "sluice indexes" may have changed.
func (x *indexes) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	all, err := x.store.List(ctx)
	if err != nil {
		return fmt.Errorf("read the indexed attributes: %w", err)
	}
	x.current.Store(index.NewSet(all))
	return nil
}

func (x *indexes) run(ctx context.Context, logger *slog.Logger) {
	for {
		begun := time.Now()
		worked, err := x.step(ctx)
		wait := indexPoll
		if worked {
			wait = time.Duration(float64(time.Since(begun)) * (1/indexShare - 1))
		}
		if err != nil && ctx.Err() == nil {
			logger.Error(cannotBuild, "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// step reads the declarations and works on one that is neither ready nor resting. worked is
// false if there is no such declaration.
func (x *indexes) step(ctx context.Context) (worked bool, err error) {
	if err := x.load(ctx); err != nil {
		return false, err
	}
	for _, d := range x.current.Load().All() {
		if d.State == index.Ready || time.Now().Before(x.resting[d.ID()]) {
			continue
		}
		if _, _, err := x.builder.Step(ctx, d); err != nil {
			x.resting[d.ID()] = time.Now().Add(indexPoll)
			return true, fmt.Errorf("%s: %w", d.Name(), err)
		}
		return true, x.load(ctx)
	}
	return false, nil
}
