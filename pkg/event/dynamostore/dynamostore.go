// Package dynamostore keeps events in a DynamoDB table.
//
// The table's partition key is pk (S), which consists of the workspace, '#' and the id.
// This makes an id unique in its workspace and spreads writes over all partitions. The
// other attributes are id, name, entity_id (absent if the event has no entity),
// occurred_at, attributes (JSON text, to preserve its bytes), created_at, and the keys of
// three global secondary indexes for lists. All of them are strings (S). The attribute
// position is the text of event.Position. An event that expires also has expires_at (N,
// Unix time in seconds), after which DynamoDB removes it.
//
//   - by_position has the keys shard and position. It lists all events of a workspace.
//     shard consists of the workspace, '#' and the number of the shard, counted from 0. A
//     hash of the id selects the shard (dynamorecord.Shards).
//   - by_entity has the keys entity_key and position. It lists the events of one entity.
//     entity_key consists of the workspace, '#' and entity_id. It is absent if the event
//     has no entity_id.
//   - by_created_at has the keys shard and arrival. It lists all events of a workspace in
//     order of creation. arrival is the text of the event's record.SyncPosition. Events
//     of earlier builds have no arrival until Backfill adds it. This index does not project
//     the keys of other indexes. It does not project id and created_at either, because
//     arrival contains them. The other indexes project all attributes.
package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Getter
	dynamorecord.Querier
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Config tunes a Store. Its zero value is ready to use.
type Config struct {
	// Shards is the number of partition keys over which each of the indexes by_position
	// and by_created_at spreads the events of a workspace. It must be from 1 (the
	// default) to dynamorecord.MaxShards. See dynamorecord.Shards.
	Shards int
}

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
	shards dynamorecord.Shards
}

// New returns a Store that keeps its events in table. It returns an error if client is
// nil, table is empty or cfg.Shards is out of range.
func New(client Client, table string, cfg Config) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("event dynamostore: a client and a table name are required")
	}
	shards, err := dynamorecord.NewShards(cmp.Or(cfg.Shards, 1))
	if err != nil {
		return nil, fmt.Errorf("event dynamostore: %w", err)
	}
	return &Store{client: client, table: table, shards: shards}, nil
}

// Open returns a Store that keeps its events in the table that the environment variable
// EVENTS_TABLE names. EVENT_SHARDS sets the number of shards.
func Open(client Client, getenv func(string) string) (*Store, error) {
	shards, err := dynamorecord.LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	s, err := New(client, getenv("EVENTS_TABLE"), Config{Shards: int(shards)})
	if err != nil {
		return nil, fmt.Errorf("EVENTS_TABLE: %w", err)
	}
	return s, nil
}

// Create implements event.Store with one conditional PutItem. It overwrites an expired
// item, because DynamoDB may take days to remove an expired item.
func (s *Store) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	return dynamorecord.Create(ctx, s.client, s.table, "pk", e, s.toItem(workspace, e), fromItem, func(in *dynamodb.PutItemInput) {
		*in.ConditionExpression += " OR #expires_at <= :now"
		in.ExpressionAttributeNames["#expires_at"] = "expires_at"
		in.ExpressionAttributeValues = dynamorecord.Item{":now": dynamorecord.Number(e.CreatedAt.Time().Unix())}
	})
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

// List implements event.Store. Reads of an index are eventually consistent, so an event
// may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (page event.Page, err error) {
	page.Events, page.More, err = dynamorecord.Page(ctx, s.client, "position", q.Limit, fromItem, s.queries(workspace, q)...)
	return page, err
}

// Arrivals implements event.Store. The read is eventually consistent, as in List.
func (s *Store) Arrivals(ctx context.Context, workspace string, q record.SyncQuery) (page event.Page, err error) {
	ins := s.shards.SyncQueries(s.table, "by_created_at", "arrival", workspace, q)
	page.Events, page.More, err = dynamorecord.Page(ctx, s.client, "arrival", q.Limit, fromArrival, ins...)
	return page, err
}

// Count implements event.Store. The read is eventually consistent, as in List.
func (s *Store) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.After = nil
	return dynamorecord.Count(ctx, s.client, until, s.queries(workspace, q)...)
}

// queries returns the queries for the events that q selects. It returns no queries if q
// cannot select any event.
func (s *Store) queries(workspace string, q event.Query) []*dynamodb.QueryInput {
	low, high := q.Bounds()
	if q.EntityID == "" {
		return s.shards.Queries(s.table, "by_position", "position", workspace, low, high, q.Ascending)
	}
	in := dynamorecord.Between(s.table, "by_entity", "entity_key", key(workspace, string(q.EntityID)), "position", low, high, q.Ascending)
	if in == nil {
		return nil
	}
	return []*dynamodb.QueryInput{in}
}

// key returns a partition key. If name is the id of an event, the result is the key of
// this event in the table. If name is the id of an entity, the result is the key of its
// events in by_entity.
func key(workspace, name string) string { return workspace + "#" + name }

func (s *Store) toItem(workspace string, e event.Event) dynamorecord.Item {
	item := dynamorecord.Item{
		"pk":          dynamorecord.Text(key(workspace, e.ID)),
		"id":          dynamorecord.Text(e.ID),
		"name":        dynamorecord.Text(e.Name),
		"occurred_at": dynamorecord.Text(e.OccurredAt.String()),
		"attributes":  dynamorecord.Text(string(e.Attributes)),
		"created_at":  dynamorecord.Text(e.CreatedAt.String()),
		"shard":       dynamorecord.Text(s.shards.Key(workspace, e.ID)),
		"position":    dynamorecord.Text(e.Position().String()),
		"arrival":     dynamorecord.Text(e.SyncPosition().String()),
	}
	if (e.ExpiresAt != record.Time{}) {
		item["expires_at"] = dynamorecord.Number(e.ExpiresAt.Time().Unix())
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
	if seconds := r.OptionalInt("expires_at"); seconds != 0 {
		e.ExpiresAt = record.TimeOf(time.Unix(seconds, 0))
	}
	if err := r.Err(); err != nil {
		return event.Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// fromArrival is like fromItem, for an item of by_created_at.
func fromArrival(item dynamorecord.Item) (event.Event, error) {
	dynamorecord.RestorePosition(item, "arrival", "created_at")
	return fromItem(item)
}

// Backfill returns a Backfill that adds the key of by_created_at to events that an earlier
// build wrote. Run it after the deployment of this build is complete.
func Backfill(client dynamorecord.BackfillClient, table string) dynamorecord.Backfill {
	return dynamorecord.Backfill{
		Client: client, Table: table, Key: []string{"pk"}, SortKey: "arrival", Time: "created_at", Read: []string{"id"},
		Keys: func(item dynamorecord.Item) (dynamorecord.Item, error) {
			r := dynamorecord.Read(item)
			arrival := record.SyncPosition{At: r.Time("created_at"), ID: r.Text("id")}
			return dynamorecord.Item{"arrival": dynamorecord.Text(arrival.String())}, r.Err()
		},
	}
}
