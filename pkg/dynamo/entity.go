package dynamo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// EntitiesClient is the part of *dynamodb.Client that Entities uses.
type EntitiesClient interface {
	getter
	querier
	updater
	batchGetter
}

// EntitiesConfig tunes Entities. Its zero value is ready to use.
type EntitiesConfig struct {
	Shards  Shards // of the index by_updated_at
	Clock   entity.Clock
	Indexes index.Declarations // nil for none
}

// Entities is an entity.Store in a DynamoDB table. It is safe for concurrent use.
//
// Each entity is one item, a tombstone if the entity is deleted. The partition key is workspace
// (S), and the sort key is id (S), whose byte order is the order of lists. The other members of
// Change.Members are attributes (S; revision N), except updated_at and deleted_at, which change
// contains. Further attributes are
//
//	token       B  random, of the latest change, by which a writer recognizes its own change
//	change      S  text of Change.SyncPosition, whose time is the stamp
//	shard       S  the workspace, '#' and a shard number, counted from 0 and selected by a
//	               hash of the id (see Shards)
//	type_key    S  the workspace, '#' and the type; absent from a tombstone
//	expires_at  N  Unix time in seconds after which DynamoDB removes a tombstone; absent from
//	               live entities
//	index_N     S  for each place N of an indexed attribute, from 1 to index.Places:
//	               Declaration.Partition; absent if the entity has no key there
//	key_N       B  Declaration.Key; absent if index_N is absent
//
// The global secondary indexes are
//
//	by_type         type_key, id       the entities of a type; projects everything, so that a
//	                                   list is one query
//	by_updated_at   shard, change      all items in order of their latest change; projects all
//	                                   but type_key, index_N and key_N
//	by_attribute_N  index_N, key_N     projects only keys
type Entities struct {
	client  EntitiesClient
	table   string
	shards  Shards
	clock   entity.Clock
	indexes index.Declarations
}

// NewEntities fails if client is nil, the table name is empty or a shard count is invalid.
func NewEntities(client EntitiesClient, table string, cfg EntitiesConfig) (*Entities, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	shards, err := cfg.Shards.checked()
	if err != nil {
		return nil, err
	}
	if cfg.Indexes == nil {
		cfg.Indexes = new(index.Current)
	}
	return &Entities{client: client, table: table, shards: shards, clock: cfg.Clock, indexes: cfg.Indexes}, nil
}

// Get implements entity.Store with a strongly consistent read.
func (s *Entities) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	c, found, err := getItem(ctx, s.client, s.table, entityKey(workspace, id), changeFromItem)
	if err == nil && (!found || c.Deleted) {
		err = record.NotFoundError("entity", id)
	}
	return c.Entity, err
}

// GetEach implements entity.Store with strongly consistent reads.
func (s *Entities) GetEach(ctx context.Context, workspace string, ids []string) (map[string]entity.Change, error) {
	const op = "get entities"
	unique := make(map[string]attributeValues) // BatchGetItem rejects repeated keys
	for _, id := range ids {
		unique[id] = entityKey(workspace, id)
	}
	found := make(map[string]entity.Change)
	for keys := range slices.Chunk(slices.Collect(maps.Values(unique)), maxBatchGet) {
		items, err := batchGet(ctx, s.client, s.table, keys, true)
		if err != nil {
			return nil, storeError(op, err)
		}
		changes, err := each(items, changeFromItem)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			found[c.ID] = c
		}
	}
	return found, nil
}

// List implements entity.Store with an eventually consistent read, at half the price of a
// strongly consistent one. A new entity may be missing for a moment.
func (s *Entities) List(ctx context.Context, workspace string, q entity.Query) (record.Page[entity.Entity], error) {
	after, err := q.Cursor.ID()
	if err != nil {
		return record.Page[entity.Entity]{}, err
	}
	return queryPage(ctx, s.client, "id", q.Limit, entityFromItem, s.query(workspace, q.Type, after))
}

// Count implements entity.Store. Like List, it is eventually consistent.
func (s *Entities) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error) {
	return countItems(ctx, s.client, until, s.query(workspace, q.Type, ""))
}

// query selects the entities of a type whose ids are after afterID. If typ is empty, it selects
// all types, and a filter drops the tombstones. The index by_type contains no tombstones.
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
	} else {
		in.FilterExpression = aws.String("attribute_not_exists(expires_at)")
	}
	if afterID != "" {
		*in.KeyConditionExpression += " AND #id > :after"
		in.ExpressionAttributeNames["#id"] = "id"
		in.ExpressionAttributeValues[":after"] = text(afterID)
	}
	return in
}

// Changes implements entity.Store with eventually consistent reads of an index.
func (s *Entities) Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[entity.Change], error) {
	ins, err := s.shards.syncQueries(s.table, "by_updated_at", workspace, q)
	if err != nil {
		return record.Page[entity.Change]{}, err
	}
	return queryChanges(ctx, s.client, s.clock.Time(), q.Limit, changeFromItem, ins...)
}

func entityKey(workspace, id string) attributeValues {
	return attributeValues{"workspace": text(workspace), "id": text(id)}
}

// typeKey is unambiguous, because a workspace's name cannot contain '#'.
func typeKey(workspace, typ string) string { return workspace + "#" + typ }

// inChange names the members that are in the attribute change.
var inChange = []string{"updated_at", "deleted_at"}

func changeFromItem(item attributeValues) (entity.Change, error) {
	r := readItem(item)
	at := r.position("change").At
	var c entity.Change
	if c.Deleted = item["expires_at"] != nil; c.Deleted {
		c.DeletedAt = at
	} else {
		c.UpdatedAt = at
	}
	r.members(c.Members(nil), inChange...)
	if err := r.err(); err != nil {
		return entity.Change{}, fmt.Errorf("read entity: %w", err)
	}
	return c, nil
}

func entityFromItem(item attributeValues) (entity.Entity, error) {
	c, err := changeFromItem(item)
	return c.Entity, err
}
