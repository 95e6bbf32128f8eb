// Package dynamostore keeps entities in a DynamoDB table.
//
// The table's partition key is workspace (S) and its sort key is id (S). DynamoDB sorts
// strings by bytes, and lists have the same order. The other attributes are type,
// attributes (JSON text), created_at and updated_at (the text of record.Time), and the
// keys of two global secondary indexes. All of them are strings (S). The attributes of an
// entity are stored as text and not as a map, because a DynamoDB number has at most 38
// digits and no trailing zeros.
//
//   - by_type has the keys type_key and id. It lists the entities of one type. type_key
//     consists of the workspace, '#' and the type. The index projects all attributes, so
//     that a list is one query.
//   - by_updated_at has the keys shard and change. It lists entities and tombstones in order
//     of their latest change. shard consists of the workspace, '#' and the number of the
//     shard, counted from 0. A hash of the id selects the shard (dynamorecord.Shards). change
//     is the text of the record.SyncPosition. Entities of earlier builds have neither shard
//     nor change until Backfill adds these attributes. The index does not project the keys of
//     by_type. It does not project updated_at either, because the attribute change contains
//     this time.
//
// A tombstone is a separate item, so reads of entities never return it. Its workspace
// attribute consists of the entity's workspace and "#deleted". It also has id, type,
// created_at, the keys of by_updated_at, and expires_at (N, Unix time in seconds), after
// which DynamoDB removes it. If the events of the entity are erased, the tombstone also
// has the attribute "erased" (S), which is the text of Change.ErasedAt.
package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Getter
	dynamorecord.Querier
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Config tunes a Store. Its zero value is ready to use.
type Config struct {
	// Shards is the number of partition keys over which the index by_updated_at spreads
	// the changes of a workspace. It must be from 1 (the default) to
	// dynamorecord.MaxShards.
	Shards int
}

// Store is an entity.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
	shards dynamorecord.Shards
}

// New returns a Store that keeps its entities in table. It returns an error if client is
// nil, table is empty or cfg.Shards is out of range.
func New(client Client, table string, cfg Config) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("entity dynamostore: a client and a table name are required")
	}
	shards, err := dynamorecord.NewShards(cmp.Or(cfg.Shards, 1))
	if err != nil {
		return nil, fmt.Errorf("entity dynamostore: %w", err)
	}
	return &Store{client: client, table: table, shards: shards}, nil
}

// Open returns a Store that keeps its entities in the table that the environment variable
// ENTITIES_TABLE names. EVENT_SHARDS sets the number of shards.
func Open(client Client, getenv func(string) string) (*Store, error) {
	shards, err := dynamorecord.LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	s, err := New(client, getenv("ENTITIES_TABLE"), Config{Shards: int(shards)})
	if err != nil {
		return nil, fmt.Errorf("ENTITIES_TABLE: %w", err)
	}
	return s, nil
}

// Replace implements entity.Store with a put. The condition of the put is that the item still
// has every attribute of the parameter old. If the response of a put is lost, the SDK retries
// the put. The retry finds that e is already stored, so Replace reports false.
func (s *Store) Replace(ctx context.Context, workspace string, old, e entity.Entity) (replaced bool, err error) {
	condition, names, values := unchanged(old)
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                 &s.table,
		Item:                      s.toItem(workspace, e),
		ConditionExpression:       condition,
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	})
	switch {
	case dynamorecord.Contended(err):
		return false, nil
	case err != nil:
		return false, dynamorecord.Error("replace entity", err)
	}
	return true, nil
}

// unchanged returns the condition that an item still has every attribute of the given entity.
// The condition ignores the keys of indexes, because items of earlier builds lack the keys of
// by_updated_at.
func unchanged(old entity.Entity) (condition *string, names map[string]string, values dynamorecord.Item) {
	values = make(dynamorecord.Item)
	names = make(map[string]string)
	var conditions []string
	for name, value := range attributes(old) {
		conditions = append(conditions, fmt.Sprintf("#%s = :%[1]s", name))
		names["#"+name], values[":"+name] = name, value
	}
	return aws.String(strings.Join(conditions, " AND ")), names, values
}

// Get implements entity.Store. The read is strongly consistent.
func (s *Store) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	e, found, err := dynamorecord.Get(ctx, s.client, s.table, key(workspace, id), fromItem)
	if err == nil && !found {
		err = record.NotFoundError("entity", id)
	}
	return e, err
}

// List implements entity.Store. The read is eventually consistent, which costs half as
// much as a consistent read. An entity may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q entity.Query) (page entity.Page, err error) {
	page.Entities, page.More, err = dynamorecord.Page(ctx, s.client, "id", q.Limit, fromItem, s.query(workspace, q.Type, q.AfterID))
	return page, err
}

// Count implements entity.Store. The read is eventually consistent, as in List.
func (s *Store) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error) {
	return dynamorecord.Count(ctx, s.client, until, s.query(workspace, q.Type, ""))
}

// query returns a query for the entities of a type after an id. An empty type means all
// types.
func (s *Store) query(workspace, typ, afterID string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		KeyConditionExpression:    aws.String("#hash = :hash"),
		ExpressionAttributeNames:  map[string]string{"#hash": "workspace"},
		ExpressionAttributeValues: dynamorecord.Item{":hash": dynamorecord.Text(workspace)},
	}
	if typ != "" {
		in.IndexName = aws.String("by_type")
		in.ExpressionAttributeNames["#hash"] = "type_key"
		in.ExpressionAttributeValues[":hash"] = dynamorecord.Text(typeKey(workspace, typ))
	}
	if afterID != "" {
		*in.KeyConditionExpression += " AND #id > :after"
		in.ExpressionAttributeNames["#id"] = "id"
		in.ExpressionAttributeValues[":after"] = dynamorecord.Text(afterID)
	}
	return in
}

// key returns the primary key of an entity.
func key(workspace, id string) dynamorecord.Item {
	return dynamorecord.Item{"workspace": dynamorecord.Text(workspace), "id": dynamorecord.Text(id)}
}

// typeKey returns the partition key of by_type for the entities of a type in a workspace.
// It is unique because the name of a workspace cannot contain '#'.
func typeKey(workspace, typ string) string { return workspace + "#" + typ }

func (s *Store) toItem(workspace string, e entity.Entity) dynamorecord.Item {
	item := attributes(e)
	item["workspace"] = dynamorecord.Text(workspace)
	item["type_key"] = dynamorecord.Text(typeKey(workspace, e.Type))
	s.setChange(item, workspace, entity.Change{Entity: e})
	return item
}

// attributes returns the item attributes that hold the members of e.
func attributes(e entity.Entity) dynamorecord.Item {
	return dynamorecord.Item{
		"id":         dynamorecord.Text(e.ID),
		"type":       dynamorecord.Text(e.Type),
		"attributes": dynamorecord.Text(string(e.Attributes)),
		"created_at": dynamorecord.Text(e.CreatedAt.String()),
		"updated_at": dynamorecord.Text(e.UpdatedAt.String()),
	}
}

func fromItem(item dynamorecord.Item) (entity.Entity, error) {
	r := dynamorecord.Read(item)
	e := entity.Entity{
		ID:         r.Text("id"),
		Type:       r.Text("type"),
		Attributes: record.Attributes(r.Text("attributes")),
		CreatedAt:  r.Time("created_at"),
		UpdatedAt:  r.Time("updated_at"),
	}
	if err := r.Err(); err != nil {
		return entity.Entity{}, fmt.Errorf("read entity: %w", err)
	}
	return e, nil
}
