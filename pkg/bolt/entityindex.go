package bolt

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// attributePath returns the path of the bucket that maps the keys of d to ids of entities. A compound
// key is the Lead, which other partitions have in their names, followed by the Rest.
func attributePath(d index.Declaration) []string { return []string{byAttribute, d.Partition("")} }

var errIndexRemoved = errors.New("the index has been removed")

// Find implements index.Finder. If the index was removed after the caller looked it up, some
// of its keys may be gone, so the error has code Unavailable.
func (s *Entities) Find(ctx context.Context, workspace string, q index.Query) (page record.Page[entity.Entity], err error) {
	bounds, err := q.Bounds()
	if err != nil || bounds.Low > bounds.High {
		return page, err
	}
	const op = "find entities"
	err = s.table.view(ctx, op, workspace, func(changes records[entity.Change]) error {
		if !slices.Contains(s.indexes.Load().Of(workspace, q.Declaration.Type), q.Declaration) {
			return record.UnavailableError(op, errIndexRemoved)
		}
		size, last := 0, ""
		for key, id := range scan(changes.index(attributePath(q.Declaration)...), bounds.Lead+bounds.Low, bounds.Lead+bounds.High, !q.Descending) {
			c, _, err := changes.at(id)
			if err != nil {
				return err
			}
			if len(page.Records) == q.Limit || record.PageFull(len(page.Records), size, len(c.Attributes)) {
				page.Next = index.CursorAfter(last)
				return nil
			}
			if last = string(key[len(bounds.Lead):]); c.Type == q.Declaration.Type && q.Key(c.ID, c.Attributes) == (index.Key{Lead: bounds.Lead, Rest: last}) {
				page.Records = append(page.Records, c.Entity)
				size += len(c.Attributes)
			}
		}
		return nil
	})
	return page, err
}

// Expect implements index.Keeper.
func (s *Entities) Expect(ctx context.Context, d index.Declaration) (int64, error) {
	return s.Count(ctx, d.Workspace, entity.Query{Type: d.Type}, record.TimeOf(s.clock.Time().Add(time.Hour)))
}

// keysAtOnce is how many keys one transaction of BuildKeys adds, while other writes wait or share it.
const keysAtOnce = 1000

// BuildKeys implements index.Keeper. It reads in a transaction of its own, for which no write waits,
// and adds the keys in short ones, for which it reads the entities again.
func (s *Entities) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (step index.Step, err error) {
	after, err := cursor.ID()
	if err != nil {
		return step, err
	}
	const op = "build index"
	var ids []string // of the entities that have a key
	err = s.table.view(ctx, op, d.Workspace, func(changes records[entity.Change]) error {
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
			if key != (index.Key{}) {
				ids = append(ids, c.ID)
			}
		}
		return nil
	})
	for some := range slices.Chunk(ids, keysAtOnce) {
		if err == nil {
			err = s.table.update(ctx, op, d.Workspace, func(changes records[entity.Change]) error { return addKeys(changes, d, some) })
		}
	}
	return step, err
}

// addKeys adds the keys of those entities that are still of d's type.
func addKeys(changes records[entity.Change], d index.Declaration, ids []string) error {
	for _, id := range ids {
		c, _, err := changes.get(id)
		if err != nil {
			return err
		}
		if !c.Live() || c.Type != d.Type {
			continue
		}
		if key, _ := d.Key(id, c.Attributes); key != (index.Key{}) {
			err = changes.add(attributePath(d), key.String(), []byte(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ClearKeys implements index.Keeper. Each call is one transaction. It always starts at the first key
// that is left.
func (s *Entities) ClearKeys(ctx context.Context, d index.Declaration, _ record.Cursor, limit int) (next record.Cursor, err error) {
	err = s.table.update(ctx, "remove index", d.Workspace, func(changes records[entity.Change]) error {
		b := changes.index(attributePath(d)...)
		keys := firstKeys(b, limit)
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		if next = ""; len(keys) == limit {
			next = "more"
			return nil
		}
		if b == nil {
			return nil
		}
		return changes.index(byAttribute).DeleteBucket([]byte(d.Partition("")))
	})
	return next, err
}
