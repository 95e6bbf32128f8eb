package dynamo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

const eraseWriters = 10

// Erase implements event.Store. It finds events in by_entity, which is eventually consistent.
// An event is deleted only if it still belongs to the entity and q covers it, because the id of an
// expired event may have been used again. If some deletions fail, Erase still deletes the other
// events.
func (s *Events) Erase(ctx context.Context, workspace string, q event.Erasure) (event.Erased, error) {
	low, high, err := record.Bounds(nil, nil, q.Cursor, true)
	if err != nil {
		return event.Erased{}, err
	}
	in := between(s.table, "by_entity", "entity_key", eventKey(workspace, q.EntityID), "position", low, high, true)
	in.Limit = aws.Int32(int32(min(q.Limit, maxErasePage)))
	in.ProjectionExpression = aws.String("#id, #created_at")
	for _, name := range []string{"id", "created_at"} {
		in.ExpressionAttributeNames["#"+name] = name
	}
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return event.Erased{}, storeError("find events to erase", err)
	}
	found, err := each(out.Items, eventToErase)
	if err != nil {
		return event.Erased{}, err
	}
	erased := event.Erased{Next: cursorAt(out.LastEvaluatedKey, "position")}
	erased.Events, err = s.deleteEach(ctx, workspace, found, q)
	return erased, err
}

const maxErasePage = 1000

// eventToErase decodes only what deleteEach needs.
func eventToErase(item attributeValues) (event.Event, error) {
	r := readItem(item)
	e := event.Event{ID: r.text("id"), CreatedAt: r.time("created_at")}
	return e, r.err()
}

// deleteEach returns how many events it deleted, and the joined errors of failed deletions.
func (s *Events) deleteEach(ctx context.Context, workspace string, events []event.Event, q event.Erasure) (int64, error) {
	var deleted atomic.Int64
	ahead := record.TimeOf(s.now().Add(2 * record.MaxClockSkew))
	var group errgroup.Group
	group.SetLimit(eraseWriters)
	errs := make([]error, len(events))
	for i, e := range events {
		if e.CreatedAt.Compare(q.Until) > 0 && e.CreatedAt.Compare(ahead) <= 0 {
			continue
		}
		group.Go(func() error {
			_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName:                &s.table,
				Key:                      attributeValues{"pk": text(eventKey(workspace, e.ID))},
				ConditionExpression:      aws.String("(#created_at <= :until OR #created_at > :ahead) AND #entity_key = :entity_key"),
				ExpressionAttributeNames: map[string]string{"#created_at": "created_at", "#entity_key": "entity_key"},
				ExpressionAttributeValues: attributeValues{
					":until": text(q.Until.String()), ":ahead": text(ahead.String()), ":entity_key": text(eventKey(workspace, q.EntityID)),
				},
			})
			var gone *types.ConditionalCheckFailedException
			switch {
			case err == nil:
				deleted.Add(1)
			case !errors.As(err, &gone):
				errs[i] = storeError("erase event", err)
			}
			return nil // continue with the other events
		})
	}
	_ = group.Wait() // the errors are in errs
	return deleted.Load(), errors.Join(errs...)
}
