package dynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// EventKeys is the index.Keeper of the index of events by name. It reads the events in order of
// time, from all shards.
type EventKeys struct {
	client updater
	events *Events
}

func NewEventKeys(client updater, events *Events) *EventKeys { return &EventKeys{client, events} }

// Expect implements index.Keeper.
func (k *EventKeys) Expect(ctx context.Context, d index.Declaration) (int64, error) {
	return k.events.Count(ctx, d.Workspace, event.Query{}, record.TimeOf(k.events.now()))
}

// BuildKeys implements index.Keeper with one conditional UpdateItem per key.
func (k *EventKeys) BuildKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (step index.Step, err error) {
	page, err := k.page(ctx, d, cursor, limit)
	if err != nil {
		return step, err
	}
	step = index.Step{Indexed: int64(len(page.Records)), Next: page.Next}
	return step, k.updateEach(ctx, page.Records, func(item attributeValues) (u updateExpression, needed bool) {
		key := nameKey(readItem(item).optionalText("shard"), readItem(item).optionalText("name"))
		u = newUpdateExpression()
		u.set("name_key", text(key))
		return u, readItem(item).optionalText("name_key") != key
	})
}

// ClearKeys implements index.Keeper with one conditional UpdateItem per key.
func (k *EventKeys) ClearKeys(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (next record.Cursor, err error) {
	page, err := k.page(ctx, d, cursor, limit)
	if err != nil {
		return "", err
	}
	return page.Next, k.updateEach(ctx, page.Records, func(item attributeValues) (u updateExpression, needed bool) {
		u = newUpdateExpression()
		u.remove("name_key")
		return u, item["name_key"] != nil
	})
}

func (k *EventKeys) page(ctx context.Context, d index.Declaration, cursor record.Cursor, limit int) (record.Page[attributeValues], error) {
	ins, err := k.events.queries(d.Workspace, event.Query{Cursor: cursor, Ascending: true})
	if err != nil {
		return record.Page[attributeValues]{}, err
	}
	return queryPage(ctx, k.events.client, "position", limit, func(item attributeValues) (attributeValues, error) { return item, nil }, ins...)
}

// updateEach makes the updates that are needed, unless the item is gone or has become another event.
func (k *EventKeys) updateEach(ctx context.Context, items []attributeValues, update func(attributeValues) (u updateExpression, needed bool)) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(keyWriters)
	for _, item := range items {
		u, needed := update(item)
		if !needed {
			continue
		}
		group.Go(func() error {
			u.names["#change"], u.values[":change"] = "change", item["change"]
			_, err := k.client.UpdateItem(groupCtx, &dynamodb.UpdateItemInput{
				TableName: &k.events.table, Key: attributeValues{"pk": item["pk"]},
				UpdateExpression: aws.String(u.String()), ConditionExpression: aws.String("#change = :change"),
				ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
			})
			if _, isRefused := errors.AsType[*types.ConditionalCheckFailedException](err); isRefused || err == nil {
				return nil
			}
			return storeError("index events", err)
		})
	}
	return group.Wait()
}
