package bolt

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

func attributePath(d index.Declaration) []string { return []string{byAttribute, d.Partition()} }

var errIndexRemoved = errors.New("the index has been removed")

// Find implements index.Finder. If the index was removed after the caller looked it up, some
// of its keys may be gone, so the error has code Unavailable.
func (s *Entities) Find(ctx context.Context, workspace string, q index.Query) (page record.Page[entity.Entity], err error) {
	low, high, err := q.Bounds()
	if err != nil || low > high {
		return page, err
	}
	const op = "find entities"
	err = s.table.view(ctx, op, workspace, func(changes records[entity.Change]) error {
		if !slices.Contains(s.indexes.Load().Of(workspace, q.Declaration.Type), q.Declaration) {
			return record.UnavailableError(op, errIndexRemoved)
		}
		size, last := 0, ""
		for key, id := range scan(changes.index(attributePath(q.Declaration)...), low, high, !q.Descending) {
			c, _, err := changes.at(id)
			if err != nil {
				return err
			}
			if len(page.Records) == q.Limit || record.PageFull(len(page.Records), size, len(c.Attributes)) {
				page.Next = index.CursorAfter(last)
				return nil
			}
			if last = string(key); c.Type == q.Declaration.Type && q.Key(c.ID, c.Attributes) == last {
				page.Records = append(page.Records, c.Entity)
				size += len(c.Attributes)
			}
		}
		return nil
	})
	return page, err
}

func (s *Entities) CountType(ctx context.Context, workspace, typ string) (int64, error) {
	return s.Count(ctx, workspace, entity.Query{Type: typ}, record.TimeOf(s.clock.Time().Add(time.Hour)))
}

// BuildKeys implements index.Keeper. Each call is one transaction.
func (s *Entities) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (step index.Step, err error) {
	after, err := cursor.ID()
	if err != nil {
		return step, err
	}
	err = s.table.update(ctx, "build index", d.Workspace, func(changes records[entity.Change]) error {
		step = index.Step{} // start over if the transaction is retried
		read, size, last := 0, 0, ""
		for _, value := range scanEntities(changes, d.Type, following(after)) {
			if read == limit || record.PageFull(read, size, len(value)) {
				step.Next = record.Cursor(last)
				return nil
			}
			read, size = read+1, size+len(value)
			c, err := s.table.decode(value)
			if err != nil {
				return err
			}
			key, present := d.Key(c.ID, c.Attributes)
			step.Count(key, present)
			last = c.ID
			if key == "" {
				continue
			}
			if err := changes.add(attributePath(d), key, []byte(c.ID)); err != nil {
				return err
			}
		}
		return nil
	})
	return step, err
}

// ClearKeys implements index.Keeper. Each call is one transaction.
func (s *Entities) ClearKeys(ctx context.Context, d index.Declaration, limit int) (found int, err error) {
	err = s.table.update(ctx, "remove index", d.Workspace, func(changes records[entity.Change]) error {
		b := changes.index(attributePath(d)...)
		var keys [][]byte
		for key := range scan(b, "", "", true) {
			if keys = append(keys, bytes.Clone(key)); len(keys) == limit {
				break
			}
		}
		found = len(keys)
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		if found > 0 || b == nil {
			return nil
		}
		return changes.index(byAttribute).DeleteBucket([]byte(d.Partition()))
	})
	return found, err
}
