package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// EntitiesClient is the part of *dynamodb.Client that a Store uses.
type EntitiesClient interface {
	putter
	getter
	querier
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// EntitiesConfig tunes a Store. Its zero value is ready to use.
type EntitiesConfig struct {
	// Shards is the number of partition keys over which the index by_updated_at spreads
	// the changes of a workspace. It must be from 1 (the default) to
	// MaxShards.
	Shards int

	ReadShards int // how many shards a list reads; Shards by default, and never less
}

// Entities is an entity.Store. It is safe for concurrent use.
//
// It keeps entities in a DynamoDB table.
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
//     shard, counted from 0. A hash of the id selects the shard (Shards). change
//     is the text of the record.Position. The index does not project the keys of by_type.
//     It does not project updated_at either, because the attribute change contains
//     this time.
//
// A tombstone is a separate item, so reads of entities never return it. Its workspace
// attribute consists of the entity's workspace and "#deleted". It also has id, type,
// created_at, the keys of by_updated_at, and expires_at (N, Unix time in seconds), after
// which DynamoDB removes it. If the events of the entity are erased, the tombstone also
// has the attribute "erased" (S), which is the text of Change.ErasedAt.
type Entities struct {
	client EntitiesClient
	table  string
	shards Shards
}

// NewEntities returns a Store that keeps its entities in table. It returns an error if client is
// nil, table is empty or cfg.Shards is out of range.
func NewEntities(client EntitiesClient, table string, cfg EntitiesConfig) (*Entities, error) {
	if client == nil || table == "" {
		return nil, errors.New("dynamo: a client and a table name are required")
	}
	shards, err := newShards(cfg.Shards, cfg.ReadShards)
	if err != nil {
		return nil, fmt.Errorf("dynamo: %w", err)
	}
	return &Entities{client: client, table: table, shards: shards}, nil
}

// OpenEntities returns a Store that keeps its entities in the table that the environment variable
// ENTITIES_TABLE names, in the shards of LoadShards.
func OpenEntities(client EntitiesClient, getenv func(string) string) (*Entities, error) {
	shards, err := LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	s, err := NewEntities(client, getenv("ENTITIES_TABLE"), EntitiesConfig{Shards: shards.Write, ReadShards: shards.Read})
	if err != nil {
		return nil, fmt.Errorf("ENTITIES_TABLE: %w", err)
	}
	return s, nil
}

// Replace implements entity.Store with a put. The condition of the put is that the item still
// has every attribute of the parameter old. If the response of a put is lost, the SDK retries
// the put. The retry finds that e is already stored, so Replace reports false.
func (s *Entities) Replace(ctx context.Context, workspace string, old, e entity.Entity) (replaced bool, err error) {
	condition, names, values := unchanged(old)
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                 &s.table,
		Item:                      s.toItem(workspace, e),
		ConditionExpression:       condition,
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	})
	switch {
	case contended(err):
		return false, nil
	case err != nil:
		return false, storeError("replace entity", err)
	}
	return true, nil
}

// unchanged returns the condition that an item still has every attribute of the given entity.
// The condition ignores the keys of indexes, because items of earlier builds lack the keys of
// by_updated_at.
func unchanged(old entity.Entity) (condition *string, names map[string]string, values attributeValues) {
	values = make(attributeValues)
	names = make(map[string]string)
	var conditions []string
	for name, value := range entityAttributes(old) {
		conditions = append(conditions, fmt.Sprintf("#%s = :%[1]s", name))
		names["#"+name], values[":"+name] = name, value
	}
	return aws.String(strings.Join(conditions, " AND ")), names, values
}

// Get implements entity.Store. The read is strongly consistent.
func (s *Entities) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	e, found, err := getItem(ctx, s.client, s.table, entityKey(workspace, id), entityFromItem)
	if err == nil && !found {
		err = record.NotFoundError("entity", id)
	}
	return e, err
}

// List implements entity.Store. The read is eventually consistent, which costs half as
// much as a consistent read. An entity may be missing for a moment after its creation.
func (s *Entities) List(ctx context.Context, workspace string, q entity.Query) (record.Page[entity.Entity], error) {
	return queryPage(ctx, s.client, "id", q.Limit, entityFromItem, s.query(workspace, q.Type, q.AfterID))
}

// Count implements entity.Store. The read is eventually consistent, as in List.
func (s *Entities) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error) {
	return countItems(ctx, s.client, until, s.query(workspace, q.Type, ""))
}

// query returns a query for the entities of a type after an id. An empty type means all
// types.
func (s *Entities) query(workspace, typ, afterID string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		KeyConditionExpression:    aws.String("#hash = :hash"),
		ExpressionAttributeNames:  map[string]string{"#hash": "workspace"},
		ExpressionAttributeValues: attributeValues{":hash": text(workspace)},
	}
	if typ != "" {
		in.IndexName = aws.String("by_type")
		in.ExpressionAttributeNames["#hash"] = "type_key"
		in.ExpressionAttributeValues[":hash"] = text(typeKey(workspace, typ))
	}
	if afterID != "" {
		*in.KeyConditionExpression += " AND #id > :after"
		in.ExpressionAttributeNames["#id"] = "id"
		in.ExpressionAttributeValues[":after"] = text(afterID)
	}
	return in
}

// entityKey returns the primary key of an entity.
func entityKey(workspace, id string) attributeValues {
	return attributeValues{"workspace": text(workspace), "id": text(id)}
}

// typeKey returns the partition key of by_type for the entities of a type in a workspace.
// It is unique because the name of a workspace cannot contain '#'.
func typeKey(workspace, typ string) string { return workspace + "#" + typ }

func (s *Entities) toItem(workspace string, e entity.Entity) attributeValues {
	item := entityAttributes(e)
	item["workspace"] = text(workspace)
	item["type_key"] = text(typeKey(workspace, e.Type))
	s.setChange(item, workspace, entity.Change{Entity: e})
	return item
}

// entityAttributes returns the item attributes that hold the members of e.
func entityAttributes(e entity.Entity) attributeValues {
	return attributeValues{
		"id":         text(e.ID),
		"type":       text(e.Type),
		"attributes": text(string(e.Attributes)),
		"created_at": text(e.CreatedAt.String()),
		"updated_at": text(e.UpdatedAt.String()),
	}
}

func entityFromItem(item attributeValues) (entity.Entity, error) {
	r := readItem(item)
	e := entity.Entity{
		ID:         r.text("id"),
		Type:       r.text("type"),
		Attributes: record.Attributes(r.text("attributes")),
		CreatedAt:  r.time("created_at"),
		UpdatedAt:  r.time("updated_at"),
	}
	if err := r.err(); err != nil {
		return entity.Entity{}, fmt.Errorf("read entity: %w", err)
	}
	return e, nil
}
