package dynamostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// deleted is the suffix of the workspace attribute of a tombstone. The workspace of an
// entity cannot contain '#'.
const deleted = "#deleted"

// Changes implements entity.Store. Reads of an index are eventually consistent.
func (s *Store) Changes(ctx context.Context, workspace string, q record.SyncQuery) ([]entity.Change, bool, error) {
	ins := s.shards.SyncQueries(s.table, "by_updated_at", "change", workspace, q)
	return dynamorecord.Page(ctx, s.client, "change", q.Limit, changeOf, ins...)
}

// changeOf returns the change in an item of by_updated_at.
func changeOf(item dynamorecord.Item) (entity.Change, error) {
	dynamorecord.RestorePosition(item, "change", "updated_at")
	r := dynamorecord.Read(item)
	if !strings.HasSuffix(r.Text("workspace"), deleted) {
		e, err := fromItem(item)
		return entity.Change{Entity: e}, err
	}
	e := entity.Entity{ID: r.Text("id"), Type: r.Text("type"), CreatedAt: r.Time("created_at")}
	return entity.TombstoneOf(e, r.Time("updated_at")), r.Err()
}

// setChange adds the keys of by_updated_at to the item of c.
func (s *Store) setChange(item dynamorecord.Item, workspace string, c entity.Change) {
	item["shard"] = dynamorecord.Text(s.shards.Key(workspace, c.ID))
	item["change"] = dynamorecord.Text(c.SyncPosition().String())
}

// tombstone returns the item of a tombstone.
func (s *Store) tombstone(workspace string, c entity.Change) dynamorecord.Item {
	item := key(workspace+deleted, c.ID)
	item["type"] = dynamorecord.Text(c.Type)
	item["created_at"] = dynamorecord.Text(c.CreatedAt.String())
	item["expires_at"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(c.ExpiresAt().Unix(), 10)}
	s.setChange(item, workspace, c)
	return item
}

// Create implements entity.Store with a transaction. It puts the item on the condition
// that no item with the key exists, and checks that a tombstone, if there is one, is
// older. Two separate calls would not be enough, because between them a process whose
// clock is ahead could delete the entity. If a condition fails, the response contains the
// existing item. If the SDK repeats a transaction because its response was lost, DynamoDB
// applies it only once.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	for {
		existing, tombstone, err := s.create(ctx, workspace, e)
		switch {
		case existing != nil:
			stored, err = fromItem(existing)
			return stored, false, err
		case tombstone != nil:
			c, err := changeOf(tombstone)
			if err != nil {
				return entity.Entity{}, false, err
			}
			e = e.After(c.DeletedAt)
		case dynamorecord.Contended(err):
			select {
			case <-time.After(rand.N(contentionWait)):
			case <-ctx.Done():
				return entity.Entity{}, false, record.UnavailableError("create entity", ctx.Err())
			}
		case err != nil:
			return entity.Entity{}, false, dynamorecord.Error("create entity", err)
		default:
			return e, true, nil
		}
	}
}

// contentionWait is the maximum random wait of Create after its transaction conflicted
// with another request for the same id. A transaction takes about 10 ms.
const contentionWait = 50 * time.Millisecond

// create makes one attempt of Create. If a condition fails, it returns the item that
// caused this, as existing or as tombstone.
func (s *Store) create(ctx context.Context, workspace string, e entity.Entity) (existing, tombstone dynamorecord.Item, err error) {
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
			Key:                                 key(workspace+deleted, e.ID),
			ConditionExpression:                 aws.String("attribute_not_exists(id) OR #change < :change"),
			ExpressionAttributeNames:            map[string]string{"#change": "change"},
			ExpressionAttributeValues:           dynamorecord.Item{":change": item["change"]},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
	}})
	if cancelled := new(types.TransactionCanceledException); errors.As(err, &cancelled) && len(cancelled.CancellationReasons) == 2 {
		existing, tombstone = cancelled.CancellationReasons[0].Item, cancelled.CancellationReasons[1].Item
	}
	return existing, tombstone, err
}

// Delete implements entity.Store with a transaction. It deletes the item under the same
// condition as Replace, and puts the tombstone, which replaces an earlier one.
func (s *Store) Delete(ctx context.Context, workspace string, was entity.Entity, at record.Time) (bool, error) {
	condition, names, values := unchanged(was)
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName:                 &s.table,
			Key:                       key(workspace, was.ID),
			ConditionExpression:       condition,
			ExpressionAttributeNames:  names,
			ExpressionAttributeValues: values,
		}},
		{Put: &types.Put{TableName: &s.table, Item: s.tombstone(workspace, entity.TombstoneOf(was, at))}},
	}})
	switch {
	case dynamorecord.Contended(err):
		return false, nil
	case err != nil:
		return false, dynamorecord.Error("delete entity", err)
	}
	return true, nil
}

// Backfill returns a Backfill that adds the keys of by_updated_at to entities that an
// earlier build wrote. Run it after the deployment of this build is complete.
func Backfill(client dynamorecord.BackfillClient, table string, shards dynamorecord.Shards) dynamorecord.Backfill {
	s := &Store{shards: shards}
	return dynamorecord.Backfill{
		Client: client, Table: table, Key: []string{"workspace", "id"}, SortKey: "change", Time: "updated_at",
		Keys: func(item dynamorecord.Item) (dynamorecord.Item, error) {
			r, keys := dynamorecord.Read(item), make(dynamorecord.Item)
			e := entity.Entity{ID: r.Text("id"), UpdatedAt: r.Time("updated_at")}
			s.setChange(keys, r.Text("workspace"), entity.Change{Entity: e})
			return keys, r.Err()
		},
	}
}
