// Package dynamostore keeps events in a DynamoDB table.
//
// The table's partition key is pk (S): workspace, '#', id. So an event is
// unique in its workspace, and writes spread over all partitions. The other
// attributes are id, name, entity_id (absent if there is none), occurred_at,
// attributes (JSON text, to keep its bytes), created_at, and the keys of the
// global secondary index by_position, which serves lists: shard, its partition
// key, and position, its sort key, the text of event.Position. All are S, and
// the index holds all of them.
package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Querier
}

// Store is an event.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

// New makes a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("event dynamostore: a client and a table name are required")
	}
	return &Store{client: client, table: table}, nil
}

// Create implements event.Store with one PutItem, whose refusal brings the
// event that is there. See dynamorecord.Create about repeats by the SDK.
func (s *Store) Create(ctx context.Context, workspace string, e event.Event) (stored event.Event, created bool, err error) {
	item, created, err := dynamorecord.Create(ctx, s.client, s.table, "pk", toItem(workspace, e))
	if err != nil {
		return event.Event{}, false, dynamorecord.Error("create event", err)
	}
	stored, err = fromItem(item)
	return stored, created, err
}

// List implements event.Store. An index is only ever read eventually
// consistent: an event may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q event.Query) (event.Page, error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String("by_position"),
		ScanIndexForward:          aws.Bool(q.Ascending),
		KeyConditionExpression:    aws.String("#shard = :shard"),
		ExpressionAttributeNames:  map[string]string{"#shard": "shard"},
		ExpressionAttributeValues: dynamorecord.Item{":shard": dynamorecord.Text(shard(workspace))},
	}
	if q.After != nil {
		beyond := " AND #position < :after"
		if q.Ascending {
			beyond = " AND #position > :after"
		}
		*in.KeyConditionExpression += beyond
		in.ExpressionAttributeNames["#position"] = "position"
		in.ExpressionAttributeValues[":after"] = dynamorecord.Text(q.After.String())
	}
	items, more, err := dynamorecord.Page(ctx, s.client, in, q.Limit)
	if err != nil {
		return event.Page{}, dynamorecord.Error("list events", err)
	}
	events, err := dynamorecord.Each(items, fromItem)
	return event.Page{Events: events, More: more}, err
}

// shard is the partition of by_position that holds a workspace's events.
func shard(workspace string) string { return workspace + "#0" }

func toItem(workspace string, e event.Event) dynamorecord.Item {
	item := dynamorecord.Item{
		"pk":          dynamorecord.Text(workspace + "#" + e.ID),
		"id":          dynamorecord.Text(e.ID),
		"name":        dynamorecord.Text(e.Name),
		"occurred_at": dynamorecord.Text(e.OccurredAt.String()),
		"attributes":  dynamorecord.Text(string(e.Attributes)),
		"created_at":  dynamorecord.Text(e.CreatedAt.String()),
		"shard":       dynamorecord.Text(shard(workspace)),
		"position":    dynamorecord.Text(e.Position().String()),
	}
	if e.EntityID != "" {
		item["entity_id"] = dynamorecord.Text(string(e.EntityID))
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
