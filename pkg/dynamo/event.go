package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// EventsClient is the part of *dynamodb.Client that a Store uses.
type EventsClient interface {
	putter
	getter
	querier
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// EventsConfig tunes a Store. Its zero value is ready to use.
type EventsConfig struct {
	// Shards is the number of partition keys over which each of the indexes by_position
	// and by_created_at spreads the events of a workspace. It must be from 1 (the
	// default) to MaxShards. See Shards.
	Shards int
}

// Events is an event.Store. It is safe for concurrent use.
//
// It keeps events in a DynamoDB table.
//
// The table's partition key is pk (S), which consists of the workspace, '#' and the id.
// This makes an id unique in its workspace and spreads writes over all partitions. The
// other attributes are id, name, entity_id (absent if the event has no entity),
// occurred_at, attributes (JSON text, to preserve its bytes), created_at, and the keys of
// three global secondary indexes for lists. All of them are strings (S). The attribute
// position is the text of Event.Position. An event that expires also has expires_at (N,
// Unix time in seconds), after which DynamoDB removes it.
//
//   - by_position has the keys shard and position. It lists all events of a workspace.
//     shard consists of the workspace, '#' and the number of the shard, counted from 0. A
//     hash of the id selects the shard (Shards).
//   - by_entity has the keys entity_key and position. It lists the events of one entity.
//     entity_key consists of the workspace, '#' and entity_id. It is absent if the event
//     has no entity_id.
//   - by_created_at has the keys shard and change. It lists all events of a workspace in
//     order of creation. change is the text of Event.SyncPosition. This
//     index does not project the keys of other indexes. It does not project id and
//     created_at either, because change contains them. The other indexes project all attributes.
type Events struct {
	client EventsClient
	table  string
	shards Shards
}

// NewEvents returns a Store that keeps its events in table. It returns an error if client is
// nil, table is empty or cfg.Shards is out of range.
func NewEvents(client EventsClient, table string, cfg EventsConfig) (*Events, error) {
	if client == nil || table == "" {
		return nil, errors.New("dynamo: a client and a table name are required")
	}
	shards, err := newShards(cmp.Or(cfg.Shards, 1))
	if err != nil {
		return nil, fmt.Errorf("dynamo: %w", err)
	}
	return &Events{client: client, table: table, shards: shards}, nil
}

// OpenEvents returns a Store that keeps its events in the table that the environment variable
// EVENTS_TABLE names. EVENT_SHARDS sets the number of shards.
func OpenEvents(client EventsClient, getenv func(string) string) (*Events, error) {
	shards, err := LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	s, err := NewEvents(client, getenv("EVENTS_TABLE"), EventsConfig{Shards: int(shards)})
	if err != nil {
		return nil, fmt.Errorf("EVENTS_TABLE: %w", err)
	}
	return s, nil
}

// Create implements event.Store with one conditional PutItem. It overwrites an expired
// item, because DynamoDB may take days to remove an expired item.
func (s *Events) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	return createItem(ctx, s.client, s.table, "pk", e, s.toItem(workspace, e), eventFromItem, func(in *dynamodb.PutItemInput) {
		*in.ConditionExpression += " OR #expires_at <= :now"
		in.ExpressionAttributeNames["#expires_at"] = "expires_at"
		in.ExpressionAttributeValues = attributeValues{":now": number(e.CreatedAt.Time().Unix())}
	})
}

// Get implements event.Store. The read is strongly consistent.
func (s *Events) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	item := attributeValues{"pk": text(eventKey(workspace, id))}
	e, found, err := getItem(ctx, s.client, s.table, item, eventFromItem)
	if err == nil && !found {
		err = record.NotFoundError("event", id)
	}
	return e, err
}

// List implements event.Store. Reads of an index are eventually consistent, so an event
// may be missing for a moment after its creation.
func (s *Events) List(ctx context.Context, workspace string, q event.Query) (record.Page[event.Event], error) {
	return queryPage(ctx, s.client, "position", q.Limit, eventFromItem, s.queries(workspace, q)...)
}

// Changes implements event.Store. The read is eventually consistent, as in List.
func (s *Events) Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[event.Event], error) {
	ins := s.shards.SyncQueries(s.table, "by_created_at", "change", workspace, q)
	return queryPage(ctx, s.client, "change", q.Limit, changedEvent, ins...)
}

// Count implements event.Store. The read is eventually consistent, as in List.
func (s *Events) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.After = nil
	return countItems(ctx, s.client, until, s.queries(workspace, q)...)
}

// queries returns the queries for the events that q selects. It returns no queries if q
// cannot select any event.
func (s *Events) queries(workspace string, q event.Query) []*dynamodb.QueryInput {
	low, high := q.Bounds()
	if q.EntityID == "" {
		return s.shards.Queries(s.table, "by_position", "position", workspace, low, high, q.Ascending)
	}
	in := between(s.table, "by_entity", "entity_key", eventKey(workspace, string(q.EntityID)), "position", low, high, q.Ascending)
	if in == nil {
		return nil
	}
	return []*dynamodb.QueryInput{in}
}

// eventKey returns a partition key. If name is the id of an event, the result is the key of
// this event in the table. If name is the id of an entity, the result is the key of its
// events in by_entity.
func eventKey(workspace, name string) string { return workspace + "#" + name }

func (s *Events) toItem(workspace string, e event.Event) attributeValues {
	item := attributeValues{
		"pk":          text(eventKey(workspace, e.ID)),
		"id":          text(e.ID),
		"name":        text(e.Name),
		"occurred_at": text(e.OccurredAt.String()),
		"attributes":  text(string(e.Attributes)),
		"created_at":  text(e.CreatedAt.String()),
		"shard":       text(s.shards.Key(workspace, e.ID)),
		"position":    text(e.Position().String()),
		"change":      text(e.SyncPosition().String()),
	}
	if (e.ExpiresAt != record.Time{}) {
		item["expires_at"] = number(e.ExpiresAt.Time().Unix())
	}
	if e.EntityID != "" {
		item["entity_id"] = text(string(e.EntityID))
		item["entity_key"] = text(eventKey(workspace, string(e.EntityID)))
	}
	return item
}

func eventFromItem(item attributeValues) (event.Event, error) {
	r := readItem(item)
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

// changedEvent is like eventFromItem, for an item of by_created_at.
func changedEvent(item attributeValues) (event.Event, error) {
	restorePosition(item, "change", "created_at")
	return eventFromItem(item)
}
