// Package dynamostore keeps events in a DynamoDB table.
//
// The table's partition key is pk (S): workspace, '#', id. So an event is
// unique in its workspace, and writes spread over all partitions. The other
// attributes are id, name, entity_id (absent if the event has none), occurred_at,
// attributes (JSON text, to keep its bytes), created_at, and the keys of two
// global secondary indexes, which serve lists. All are S, the indexes project all
// of them, and the sort key of both is position, the text of event.Position.
//
//   - by_position, of shard and position: all events of a workspace. shard is
//     workspace, '#' and a number from 0, by a hash of the id.
//   - by_entity, of entity_key and position: those of one entity. entity_key is
//     workspace, '#', entity_id; absent if the event has no entity_id.
package dynamostore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// MaxShards is the largest number of shards.
const MaxShards = 64

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Getter
	dynamorecord.Querier
}

// Config tunes a Store. Its zero value is ready to use.
type Config struct {
	// Shards is the number of partition keys of by_position over which the
	// events of a workspace are spread, 1 (the default) to MaxShards. Each takes
	// 1,000 write units a second, and each is read for a list. It may be raised
	// at any time but never lowered: events in a shard that is no longer read
	// are missing from lists.
	Shards int
}

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
	shards int
}

// New returns a Store over the table of that name.
func New(client Client, table string, cfg Config) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("event dynamostore: a client and a table name are required")
	}
	cfg.Shards = cmp.Or(cfg.Shards, 1)
	if cfg.Shards < 1 || cfg.Shards > MaxShards {
		return nil, fmt.Errorf("event dynamostore: %d shards, want 1 to %d", cfg.Shards, MaxShards)
	}
	return &Store{client: client, table: table, shards: cfg.Shards}, nil
}

// Open returns a Store over the table that the environment variable EVENTS_TABLE
// names, with the configuration of LoadConfig.
func Open(client Client, getenv func(string) string) (*Store, error) {
	cfg, err := LoadConfig(getenv)
	if err != nil {
		return nil, err
	}
	return New(client, getenv("EVENTS_TABLE"), cfg)
}

// LoadConfig reads Config.Shards from the environment variable EVENT_SHARDS,
// whose default is 1. The error for another value names the variable.
func LoadConfig(getenv func(string) string) (Config, error) {
	const name = "EVENT_SHARDS"
	text := cmp.Or(getenv(name), "1")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxShards {
		return Config{}, fmt.Errorf("%s=%q must be a whole number from 1 to %d", name, text, MaxShards)
	}
	return Config{Shards: n}, nil
}

// Create implements event.Store with one conditional PutItem.
func (s *Store) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	return dynamorecord.Create(ctx, s.client, s.table, "pk", e, s.toItem(workspace, e), fromItem)
}

// Get implements event.Store. The read is strongly consistent.
func (s *Store) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	item := dynamorecord.Item{"pk": dynamorecord.Text(key(workspace, id))}
	e, found, err := dynamorecord.Get(ctx, s.client, s.table, item, fromItem)
	if err == nil && !found {
		err = record.NotFoundError("event", id)
	}
	return e, err
}

// List implements event.Store. Reads of an index are eventually consistent: an
// event may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (page event.Page, err error) {
	page.Events, page.More, err = dynamorecord.Page(ctx, s.client, "position", q.Limit, fromItem, s.queries(workspace, q)...)
	return page, err
}

// Count implements event.Store, as consistently as List.
func (s *Store) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.After = nil
	return dynamorecord.Count(ctx, s.client, "created_at", until.String(), s.queries(workspace, q)...)
}

// queries returns the queries for what q selects, none if it selects nothing.
func (s *Store) queries(workspace string, q event.Query) (ins []*dynamodb.QueryInput) {
	low, high := q.Bounds()
	// Positions begin with a digit, so they are between these texts.
	low, high = cmp.Or(low, "0"), cmp.Or(high, ":")
	if low > high {
		return nil // DynamoDB rejects a range whose ends cross
	}
	query := func(index, attribute, value string) *dynamodb.QueryInput {
		return &dynamodb.QueryInput{
			TableName:                &s.table,
			IndexName:                &index,
			ScanIndexForward:         &q.Ascending,
			KeyConditionExpression:   aws.String("#key = :key AND #position BETWEEN :low AND :high"),
			ExpressionAttributeNames: map[string]string{"#key": attribute, "#position": "position"},
			ExpressionAttributeValues: dynamorecord.Item{
				":key": dynamorecord.Text(value), ":low": dynamorecord.Text(low), ":high": dynamorecord.Text(high),
			},
		}
	}
	if q.EntityID != "" {
		return append(ins, query("by_entity", "entity_key", key(workspace, string(q.EntityID))))
	}
	for n := range s.shards {
		ins = append(ins, query("by_position", "shard", key(workspace, strconv.Itoa(n))))
	}
	return ins
}

// key returns the partition key of a workspace's events with a name: an id, the
// number of a shard, or the id of an entity.
func key(workspace, name string) string { return workspace + "#" + name }

// shardOf returns the number of the shard of an event. The hash spreads all kinds
// of ids evenly, also those that count up.
func (s *Store) shardOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:8])%uint64(s.shards), 10)
}

func (s *Store) toItem(workspace string, e event.Event) dynamorecord.Item {
	item := dynamorecord.Item{
		"pk":          dynamorecord.Text(key(workspace, e.ID)),
		"id":          dynamorecord.Text(e.ID),
		"name":        dynamorecord.Text(e.Name),
		"occurred_at": dynamorecord.Text(e.OccurredAt.String()),
		"attributes":  dynamorecord.Text(string(e.Attributes)),
		"created_at":  dynamorecord.Text(e.CreatedAt.String()),
		"shard":       dynamorecord.Text(key(workspace, s.shardOf(e.ID))),
		"position":    dynamorecord.Text(e.Position().String()),
	}
	if e.EntityID != "" {
		item["entity_id"] = dynamorecord.Text(string(e.EntityID))
		item["entity_key"] = dynamorecord.Text(key(workspace, string(e.EntityID)))
	}
	return item
}

func fromItem(item dynamorecord.Item) (event.Event, error) {
	r := dynamorecord.Read(item)
	e := event.Event{
		ID:         r.Text("id"),
		Name:       r.Text("name"),
		EntityID:   event.OptionalID(r.OptionalText("entity_id")),
		OccurredAt: r.Time("occurred_at"),
		Attributes: record.Attributes(r.Text("attributes")),
		CreatedAt:  r.Time("created_at"),
	}
	if err := r.Err(); err != nil {
		return event.Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}
