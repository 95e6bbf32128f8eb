package copier

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// follow sends the pages of a walk, and saves after each one where the walk continues.
func follow[T any](ctx context.Context, c *copier, pages iter.Seq2[client.ChangePage[T], error], at *position, syncedUntil func() record.Time, send func([]T) error) error {
	left := false
	for page, err := range pages {
		if err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		if err := send(page.Data); err != nil {
			return fmt.Errorf("the destination: %w", err)
		}
		c.sent.Add(int64(len(page.Data)))
		if left = page.NextCursor != nil; !left {
			continue // the step saves that it is done
		}
		at.Cursor = *page.NextCursor
		if err := c.save(ctx); err != nil {
			return err
		}
	}
	c.left = c.left || left
	*at = position{Since: syncedUntil()}
	return nil
}

// erase carries out the erasures of a page that the destination has not carried out, and waits for
// their jobs.
func (c *copier) erase(ctx context.Context, page []entity.Change) error {
	var erased []entity.Change
	for _, e := range page {
		if e.Erased() && !c.state.handled(e) {
			erased = append(erased, e)
		}
	}
	for _, e := range erased {
		if c.state.Fresh {
			continue
		}
		if _, err := c.to.EraseEntity(ctx, e.ID); err != nil {
			return err
		}
	}
	if err := c.late.Settle(ctx, c.stderr); err != nil { // a late request could create another job
		return err
	}
	for _, e := range erased {
		if !c.state.Fresh {
			j, err := c.to.AwaitErasureJob(ctx, e.ID, nil)
			if err != nil {
				return err
			}
			if j.Status != api.JobSucceeded {
				return fmt.Errorf("the erasure of %s %s", e.ID, j.Status)
			}
			c.result.Erasures++
		}
		c.state.noteErased(e)
	}
	return nil
}

func (c *copier) sendEntities(ctx context.Context, page []entity.Change) error {
	var drafts []entity.Draft
	for _, e := range page {
		d := entity.Draft{ID: e.ID, Deleted: true}
		if !e.Deleted {
			d = entity.Draft{ID: e.ID, Type: e.Type, Attributes: e.Attributes, Replace: true}
		}
		drafts = append(drafts, d)
	}
	size := func(d entity.Draft) int { return len(d.ID) + 6*len(d.Type) + len(d.Attributes) + 128 }
	err := send(drafts, size, func(batch []entity.Draft) ([]client.BatchResult[entity.Entity], error) {
		return c.to.UpsertEntities(ctx, batch)
	}, func(d entity.Draft, err error) error { return fmt.Errorf("the entity %s: %w", d.ID, err) })
	c.result.Entities += int64(len(page))
	return err
}

// sendEvents returns a function that sends a page of events, but for those that an erasure in the
// source has yet to remove.
func (c *copier) sendEvents(ctx context.Context) func(page []event.Event) error {
	size := func(d event.Draft) int {
		return len(d.ID) + 6*len(d.Name) + len(d.EntityID) + len(d.Attributes) + 192
	}
	return func(page []event.Event) error {
		var drafts []event.Draft
		for _, e := range page {
			if !c.state.erases(e.EntityID, e.CreatedAt) {
				drafts = append(drafts, event.Draft{ID: e.ID, Name: e.Name, EntityID: e.EntityID, OccurredAt: &e.OccurredAt, Attributes: e.Attributes})
			}
		}
		c.result.Events += int64(len(drafts))
		return send(drafts, size, func(batch []event.Draft) ([]client.BatchResult[event.Event], error) {
			return c.to.CreateEvents(ctx, batch)
		}, func(d event.Draft, err error) error {
			if errors.Is(err, client.ErrConflict) { // no event can be changed
				c.result.Differ = append(c.result.Differ, d.ID)
				return nil
			}
			return fmt.Errorf("the event %s: %w", d.ID, err)
		})
	}
}

// send sends drafts in batches. failed says what the error of a draft means for the copy.
func send[N, T any](drafts []N, size func(N) int, call func([]N) ([]client.BatchResult[T], error), failed func(N, error) error) error {
	for begin := 0; begin < len(drafts); {
		end, bytes := begin, 0
		for end < len(drafts) && end-begin < client.MaxBatch && (end == begin || bytes+size(drafts[end]) <= client.MaxBatchBytes) {
			bytes += size(drafts[end])
			end++
		}
		results, err := call(drafts[begin:end])
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err == nil {
				continue
			}
			if err := failed(drafts[begin+i], r.Err); err != nil {
				return err
			}
		}
		begin = end
	}
	return nil
}
