package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// indexKey is an item's key in one of the indexes by_attribute_N; zero if the item has none.
type indexKey struct{ partition, key string }

// indexKeys holds an item's key for place N at index N-1.
type indexKeys [index.Places]indexKey

func keysOf(workspace string, c entity.Change, indexed index.Set) (keys indexKeys) {
	if c.Deleted {
		return keys
	}
	for _, d := range indexed.Of(workspace, c.Type) {
		if key, _ := d.Key(c.ID, c.Attributes); key != (index.Key{}) && d.Written() {
			keys[d.Place-1] = indexKey{d.Partition(key.Lead), key.Rest}
		}
	}
	return keys
}

// setKeys writes the keys of every place. Setting a key to its present value and removing an
// absent key cost nothing.
func (u *updateExpression) setKeys(keys indexKeys) {
	for i, k := range keys {
		u.setKey(i+1, k)
	}
}

func (u *updateExpression) setKey(place int, k indexKey) {
	partition, key := placeNames(place)
	if k.key == "" {
		u.remove(partition)
		u.remove(key)
		return
	}
	u.set(partition, text(k.partition))
	u.set(key, blob(k.key))
}

// placeNames returns the names of the two attributes that hold a place's key.
func placeNames(place int) (partition, key string) {
	return fmt.Sprintf("index_%d", place), fmt.Sprintf("key_%d", place)
}

// Find implements index.Finder. It reads keys from an eventually consistent index, and then
// the entities with strong consistency, so it never returns an erased entity or an outdated
// value.
func (s *Entities) Find(ctx context.Context, workspace string, q index.Query) (page record.Page[entity.Entity], err error) {
	const op = "find entities"
	bounds, err := q.Bounds()
	if err != nil || bounds.Low > bounds.High {
		return page, err
	}
	in := s.keyQuery(q.Declaration, bounds)
	in.ScanIndexForward = aws.Bool(!q.Descending)
	in.Limit = aws.Int32(int32(q.Limit) + 1)
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return page, storeError(op, err)
	}
	_, name := placeNames(q.Declaration.Place)
	size, last := 0, ""
	for items := range slices.Chunk(out.Items[:min(q.Limit, len(out.Items))], findAtOnce) {
		found, err := s.GetEach(ctx, workspace, idsOf(items))
		if err != nil {
			return page, err
		}
		for _, item := range items {
			r := readItem(item)
			key, c := r.binary(name), found[r.text("id")]
			if r.err() != nil {
				return page, r.err()
			}
			if record.PageFull(len(page.Records), size, len(c.Attributes)) {
				page.Next = index.CursorAfter(last)
				return page, nil
			}
			if last = key; c.Live() && c.Type == q.Declaration.Type && q.Key(c.ID, c.Attributes) == (index.Key{Lead: bounds.Lead, Rest: key}) {
				page.Records = append(page.Records, c.Entity)
				size += len(c.Attributes)
			}
		}
	}
	if len(out.Items) > q.Limit {
		page.Next = index.CursorAfter(last)
	}
	return page, nil
}

// findAtOnce is how many entities Find reads before it checks whether the page is full.
const findAtOnce = 50

func idsOf(items []attributeValues) (ids []string) {
	for _, item := range items {
		ids = append(ids, readItem(item).optionalText("id"))
	}
	return ids
}

// keyQuery selects the index keys of d within bounds.
func (s *Entities) keyQuery(d index.Declaration, bounds index.Bounds) *dynamodb.QueryInput {
	partition, key := placeNames(d.Place)
	return &dynamodb.QueryInput{
		TableName:                &s.table,
		IndexName:                aws.String(fmt.Sprintf("by_attribute_%d", d.Place)),
		KeyConditionExpression:   aws.String("#partition = :partition AND #key BETWEEN :low AND :high"),
		ExpressionAttributeNames: map[string]string{"#partition": partition, "#key": key},
		ExpressionAttributeValues: attributeValues{
			":partition": text(d.Partition(bounds.Lead)), ":low": blob(bounds.Low), ":high": blob(bounds.High),
		},
	}
}

// Expect implements index.Keeper. Like Count, it is eventually consistent.
func (s *Entities) Expect(ctx context.Context, d index.Declaration) (int64, error) {
	return s.Count(ctx, d.Workspace, entity.Query{Type: d.Type}, record.TimeOf(s.clock.Time().Add(time.Hour)))
}

const keyWriters = 8

// BuildKeys implements index.Keeper. It writes a key only if the item has not changed since it
// was read; otherwise it reads the item again.
func (s *Entities) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (step index.Step, err error) {
	after, err := cursor.ID()
	if err != nil {
		return step, err
	}
	in := s.query(d.Workspace, d.Type, after)
	in.Limit = aws.Int32(int32(limit))
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return step, storeError("build index", err)
	}
	for _, item := range out.Items {
		r := readItem(item)
		id, attributes := r.text("id"), r.text("attributes")
		if r.err() != nil {
			return step, fmt.Errorf("build index: %w", r.err())
		}
		key, present := d.Key(id, record.Attributes(attributes))
		step.Count(key, present)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(keyWriters)
	for _, item := range out.Items {
		group.Go(func() error { return s.buildKey(groupCtx, d, item) })
	}
	step.Next = cursorAt(out.LastEvaluatedKey, "id")
	return step, group.Wait()
}

func (s *Entities) buildKey(ctx context.Context, d index.Declaration, item attributeValues) error {
	partition, name := placeNames(d.Place)
	for {
		c, err := changeFromItem(item)
		if err != nil {
			return err
		}
		var want, has indexKey
		if key, _ := d.Key(c.ID, c.Attributes); key != (index.Key{}) && !c.Deleted && c.Type == d.Type {
			want = indexKey{d.Partition(key.Lead), key.Rest}
		}
		r := readItem(item)
		has.partition = r.optionalText(partition)
		if has.partition != "" {
			has.key = r.binary(name)
		}
		if want == has || c.Type != d.Type || c.Deleted {
			return r.err()
		}
		u := newUpdateExpression()
		u.setKey(d.Place, want)
		when := seen(c)
		when.name(u)
		_, err = s.client.UpdateItem(ctx, s.conditional(d.Workspace, c.ID, when.expression, u))
		refused, isRefused := errors.AsType[*types.ConditionalCheckFailedException](err)
		switch {
		case err == nil || isRefused && refused.Item == nil:
			return nil
		case !isRefused:
			return storeError("build index", err)
		}
		item = refused.Item
	}
}

// ClearKeys implements index.Keeper with one conditional UpdateItem per key. Only entities of d.Type
// have keys of d, so it reads those; the index of an attribute has a partition per value if d has
// several attributes.
func (s *Entities) ClearKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (next record.Cursor, err error) {
	after, err := cursor.ID()
	if err != nil {
		return "", err
	}
	partition, _ := placeNames(d.Place)
	in := s.query(d.Workspace, d.Type, after)
	in.Limit = aws.Int32(int32(limit))
	in.ProjectionExpression = aws.String("id, " + partition)
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return "", storeError("remove index", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(keyWriters)
	for _, item := range out.Items {
		has := readItem(item).optionalText(partition)
		if !d.Owns(has) {
			continue
		}
		group.Go(func() error {
			u := newUpdateExpression()
			u.setKey(d.Place, indexKey{})
			u.values[":partition"] = text(has)
			_, err := s.client.UpdateItem(groupCtx, s.conditional(d.Workspace, readItem(item).optionalText("id"), "#"+partition+" = :partition", u))
			if _, isRefused := errors.AsType[*types.ConditionalCheckFailedException](err); isRefused || err == nil {
				return nil
			}
			return storeError("remove index", err)
		})
	}
	return cursorAt(out.LastEvaluatedKey, "id"), group.Wait()
}
