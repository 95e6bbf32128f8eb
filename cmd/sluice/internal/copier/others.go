package copier

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"sluice/pkg/client"
	"sluice/pkg/entity"
)

// removeOthers deletes the entities of the destination that the source does not have. It compares
// both lists, which are in order of id, so what is created meanwhile may look like one of them: the
// next round then sends it again.
func (c *copier) removeOthers(ctx context.Context) error {
	if !c.state.Whole || c.state.Fresh {
		return nil
	}
	next, stop := iter.Pull2(c.from.Entities(ctx, client.EntityQuery{Limit: c.PageSize}))
	defer stop()
	theirs, err, more := next()
	var others []entity.Draft
	for ours, failure := range c.to.Entities(ctx, client.EntityQuery{Limit: c.PageSize}) {
		if failure != nil {
			return fmt.Errorf("the destination: %w", failure)
		}
		for more && err == nil && theirs.ID < ours.ID {
			theirs, err, more = next()
		}
		if err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		if !more || theirs.ID != ours.ID {
			others = append(others, entity.Draft{ID: ours.ID, Deleted: true, IfRevision: &ours.Revision})
		}
		if len(others) == client.MaxBatch {
			if err := c.remove(ctx, others); err != nil {
				return err
			}
			others = nil
		}
	}
	return c.remove(ctx, others)
}

func (c *copier) remove(ctx context.Context, others []entity.Draft) error {
	return send(others, func(entity.Draft) int { return 0 }, func(batch []entity.Draft) ([]client.BatchResult[entity.Entity], error) {
		c.result.Removed += int64(len(batch))
		return c.to.UpsertEntities(ctx, batch)
	}, func(d entity.Draft, err error) error {
		if errors.Is(err, client.ErrRevisionMismatch) {
			return fmt.Errorf("the entity %s of the destination is changed by others during the copy: %w", d.ID, err)
		}
		return fmt.Errorf("the destination: the entity %s: %w", d.ID, err)
	})
}
