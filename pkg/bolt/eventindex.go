package bolt

import (
	"bytes"
	"context"
	"slices"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// Expect implements index.Keeper.
func (s *Events) Expect(ctx context.Context, d index.Declaration) (int64, error) {
	return s.Count(ctx, d.Workspace, event.Query{}, record.TimeOf(s.now()))
}

// BuildKeys implements index.Keeper. Like Entities.BuildKeys, it reads in a transaction of its own, and
// adds the keys in short ones.
func (s *Events) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (step index.Step, err error) {
	const op = "build index"
	var page record.Page[event.Event] // expired events have keys too, until they are removed
	err = s.table.view(ctx, op, d.Workspace, func(events records[event.Event]) error {
		entries, err := scanEvents(events, event.Query{Cursor: cursor, Ascending: true})
		if err == nil {
			page, err = s.table.page(entries, limit, nil)
		}
		return err
	})
	for some := range slices.Chunk(page.Records, keysAtOnce) {
		if err != nil {
			return step, err
		}
		err = s.table.update(ctx, op, d.Workspace, func(events records[event.Event]) error {
			for _, e := range some {
				key := e.Position().String()
				e, exists, err := events.at([]byte(key)) // it may have been erased
				if err == nil && exists {
					err = events.add([]string{byName, e.Name}, key, nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return index.Step{Indexed: int64(len(page.Records)), Next: page.Next}, err
}

// ClearKeys implements index.Keeper. Each call is one transaction. It always starts at the first key
// that is left.
func (s *Events) ClearKeys(ctx context.Context, d index.Declaration, _ record.Cursor, limit int) (next record.Cursor, err error) {
	err = s.table.update(ctx, "remove index", d.Workspace, func(events records[event.Event]) error {
		next = ""
		names := events.index(byName)
		var cleared [][]byte // names without events
		for name := range scan(names, "", "", true) {
			keys := firstKeys(names.Bucket(name), limit)
			for _, key := range keys {
				if err := names.Bucket(name).Delete(key); err != nil {
					return err
				}
			}
			if limit -= len(keys); limit == 0 {
				next = "more"
				break
			}
			cleared = append(cleared, bytes.Clone(name))
		}
		for _, name := range cleared {
			if err := names.DeleteBucket(name); err != nil {
				return err
			}
		}
		if next != "" || names == nil {
			return nil
		}
		return events.bucket.DeleteBucket([]byte(byName))
	})
	return next, err
}

// firstKeys returns the first keys of b, at most limit.
func firstKeys(b *bbolt.Bucket, limit int) (keys [][]byte) {
	for key := range scan(b, "", "", true) {
		if len(keys) == limit {
			break
		}
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}
