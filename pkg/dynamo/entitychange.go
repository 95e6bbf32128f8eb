package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// deleted is the suffix of the workspace attribute of a tombstone. The workspace of an
// entity cannot contain '#'.
const deleted = "#deleted"

// Changes implements entity.Store. Reads of an index are eventually consistent.
func (s *Entities) Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[entity.Change], error) {
	ins := s.shards.SyncQueries(s.table, "by_updated_at", "change", workspace, q)
	return queryPage(ctx, s.client, "change", q.Limit, changeOf, ins...)
}

// changeOf returns the change in an item of by_updated_at.
func changeOf(item attributeValues) (entity.Change, error) {
	restorePosition(item, "change", "updated_at")
	r := readItem(item)
	if !strings.HasSuffix(r.text("workspace"), deleted) {
		e, err := entityFromItem(item)
		return entity.Change{Entity: e}, err
	}
	e := entity.Entity{ID: r.text("id"), Type: r.text("type"), CreatedAt: r.time("created_at")}
	c := entity.TombstoneOf(e, r.time("updated_at"))
	if c.Erased = item["erased"] != nil; c.Erased {
		c.ErasedAt = r.time("erased")
	}
	return c, r.err()
}

// setChange adds the keys of by_updated_at to the item of c.
func (s *Entities) setChange(item attributeValues, workspace string, c entity.Change) {
	item["shard"] = text(s.shards.Key(workspace, c.ID))
	item["change"] = text(c.SyncPosition().String())
}

// tombstone returns the item of a tombstone.
func (s *Entities) tombstone(workspace string, c entity.Change) attributeValues {
	item := entityKey(workspace+deleted, c.ID)
	item["type"] = text(c.Type)
	item["created_at"] = text(c.CreatedAt.String())
	item["expires_at"] = number(c.ExpiresAt().Unix())
	if c.Erased {
		item["erased"] = text(c.ErasedAt.String())
	}
	s.setChange(item, workspace, c)
	return item
}

// Create implements entity.Store with a transaction. The transaction puts the item if no
// item with its key exists, and checks that the tombstone of the id, if it exists, is
// earlier than e. A separate check before the put would not be enough. Between the check
// and the put, a process whose clock is ahead could delete an existing entity with this
// id. The put would then succeed although the tombstone is later than e. If a condition
// fails, the response contains the existing item. If the SDK repeats a transaction because
// the response was lost, DynamoDB applies it only once.
func (s *Entities) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	for {
		existing, tombstone, err := s.create(ctx, workspace, e)
		switch {
		case existing != nil:
			stored, err = entityFromItem(existing)
			return stored, false, err
		case tombstone != nil:
			c, err := changeOf(tombstone)
			if err != nil {
				return entity.Entity{}, false, err
			}
			e = e.After(c.DeletedAt)
		case contended(err):
			if err := waitForOthers(ctx, "create entity"); err != nil {
				return entity.Entity{}, false, err
			}
		case err != nil:
			return entity.Entity{}, false, storeError("create entity", err)
		default:
			return e, true, nil
		}
	}
}

// contentionWait is the maximum random wait after a transaction conflicted with another
// request for the same id. A transaction takes about 10 ms.
const contentionWait = 50 * time.Millisecond

// waitForOthers waits for a random time before an operation retries its transaction.
func waitForOthers(ctx context.Context, op string) error {
	select {
	case <-time.After(rand.N(contentionWait)):
		return nil
	case <-ctx.Done():
		return record.UnavailableError(op, ctx.Err())
	}
}

// create tries the transaction of Create once. If a condition fails, create returns the
// item that made the condition fail: the existing entity or the tombstone.
func (s *Entities) create(ctx context.Context, workspace string, e entity.Entity) (existing, tombstone attributeValues, err error) {
	item := s.toItem(workspace, e)
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{
			TableName:                           &s.table,
			Item:                                item,
			ConditionExpression:                 aws.String("attribute_not_exists(id)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
		{ConditionCheck: &types.ConditionCheck{
			TableName:                           &s.table,
			Key:                                 entityKey(workspace+deleted, e.ID),
			ConditionExpression:                 aws.String("attribute_not_exists(id) OR #change < :change"),
			ExpressionAttributeNames:            map[string]string{"#change": "change"},
			ExpressionAttributeValues:           attributeValues{":change": item["change"]},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
	}})
	if cancelled := new(types.TransactionCanceledException); errors.As(err, &cancelled) && len(cancelled.CancellationReasons) == 2 {
		existing, tombstone = cancelled.CancellationReasons[0].Item, cancelled.CancellationReasons[1].Item
	}
	return existing, tombstone, err
}

// Delete implements entity.Store with one transaction that removes the entity and stores
// the tombstone.
func (s *Entities) Delete(ctx context.Context, workspace string, old entity.Entity, at record.Time) (bool, error) {
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		s.remove(workspace, old), {Update: s.bury(workspace, entity.TombstoneOf(old, at))},
	}})
	switch {
	case contended(err):
		return false, nil
	case err != nil:
		return false, storeError("delete entity", err)
	}
	return true, nil
}

// remove returns a transaction item that deletes the item of the given entity. Its condition
// is that the item still has every attribute of this entity.
func (s *Entities) remove(workspace string, old entity.Entity) types.TransactWriteItem {
	condition, names, values := unchanged(old)
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName:                 &s.table,
		Key:                       entityKey(workspace, old.ID),
		ConditionExpression:       condition,
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}}
}

// bury returns an update that stores the tombstone c. The update replaces an earlier
// tombstone of the entity. If c.Erased is not set, the update keeps the attribute
// "erased" of the earlier tombstone.
func (s *Entities) bury(workspace string, c entity.Change) *types.Update {
	update := &types.Update{
		TableName:                 &s.table,
		Key:                       entityKey(workspace+deleted, c.ID),
		ExpressionAttributeNames:  make(map[string]string),
		ExpressionAttributeValues: make(attributeValues),
	}
	var set []string
	for name, value := range s.tombstone(workspace, c) {
		if update.Key[name] == nil {
			set = append(set, fmt.Sprintf("#%s = :%[1]s", name))
			update.ExpressionAttributeNames["#"+name], update.ExpressionAttributeValues[":"+name] = name, value
		}
	}
	update.UpdateExpression = aws.String("SET " + strings.Join(set, ", "))
	return update
}

// Erase implements entity.Store. It reads the entity and its tombstone. A transaction
// then replaces the two with the new tombstone, on the condition that neither of them has
// changed.
func (s *Entities) Erase(ctx context.Context, workspace, id string, now time.Time) (entity.Change, error) {
	const op = "erase entity"
	for {
		tombstone, buried, err := getItem(ctx, s.client, s.table, entityKey(workspace+deleted, id), changeOf)
		if err != nil {
			return entity.Change{}, err
		}
		e, exists, err := getItem(ctx, s.client, s.table, entityKey(workspace, id), entityFromItem)
		if err != nil {
			return entity.Change{}, err
		}
		latest := tombstone
		latest.ID = id
		first := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &s.table, Key: entityKey(workspace, id), ConditionExpression: aws.String("attribute_not_exists(id)"),
		}}
		if exists {
			latest, first = entity.Change{Entity: e}, s.remove(workspace, e)
		}
		erased := latest.ErasedTombstone(now)
		update := s.bury(workspace, erased)
		update.ConditionExpression = aws.String("attribute_not_exists(#id)")
		update.ExpressionAttributeNames["#id"] = "id"
		if buried {
			update.ConditionExpression = aws.String("attribute_exists(#id) AND #change = :was")
			update.ExpressionAttributeValues[":was"] = text(tombstone.SyncPosition().String())
		}
		_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{first, {Update: update}}})
		if !contended(err) {
			if err != nil {
				err = storeError(op, err)
			}
			return erased, err
		}
		if err := waitForOthers(ctx, op); err != nil {
			return entity.Change{}, err
		}
	}
}
