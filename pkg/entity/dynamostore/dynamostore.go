// Package dynamostore keeps entities in a DynamoDB table.
//
// The table's partition key is workspace (S), its sort key id (S): DynamoDB
// sorts strings by bytes, which is the order of lists. The other attributes
// are type, attributes (JSON text), created_at and updated_at (the text of
// record.Time), all S. Attributes are text and not a map, so that they keep
// their bytes: DynamoDB's numbers have 38 digits and no trailing zeros.
package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Querier
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Store is an entity.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

// New makes a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("entity dynamostore: a client and a table name are required")
	}
	return &Store{client: client, table: table}, nil
}

// Create implements entity.Store with one PutItem, whose refusal brings the
// entity that is there: a read would cost a call and could come too early. See
// dynamorecord.Create about repeats by the SDK.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	item, created, err := dynamorecord.Create(ctx, s.client, s.table, "workspace", toItem(workspace, e))
	if err != nil {
		return entity.Entity{}, false, dynamorecord.Error("create entity", err)
	}
	stored, err = fromItem(item)
	return stored, created, err
}

// Get implements entity.Store. The read is strongly consistent: a client that
// has just created an entity gets it.
func (s *Store) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.table,
		Key:            dynamorecord.Item{"workspace": dynamorecord.Text(workspace), "id": dynamorecord.Text(id)},
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return entity.Entity{}, dynamorecord.Error("get entity", err)
	}
	if out.Item == nil {
		return entity.Entity{}, record.NotFoundError("entity", id)
	}
	return fromItem(out.Item)
}

// List implements entity.Store. The read is eventually consistent, at half the
// price: an entity may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q entity.Query) (entity.Page, error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		KeyConditionExpression:    aws.String("#workspace = :workspace"),
		ExpressionAttributeNames:  map[string]string{"#workspace": "workspace"},
		ExpressionAttributeValues: dynamorecord.Item{":workspace": dynamorecord.Text(workspace)},
	}
	if q.AfterID != "" {
		*in.KeyConditionExpression += " AND #id > :after"
		in.ExpressionAttributeNames["#id"] = "id"
		in.ExpressionAttributeValues[":after"] = dynamorecord.Text(q.AfterID)
	}
	items, more, err := dynamorecord.Page(ctx, s.client, in, q.Limit)
	if err != nil {
		return entity.Page{}, dynamorecord.Error("list entities", err)
	}
	entities, err := dynamorecord.Each(items, fromItem)
	return entity.Page{Entities: entities, More: more}, err
}

func toItem(workspace string, e entity.Entity) dynamorecord.Item {
	return dynamorecord.Item{
		"workspace":  dynamorecord.Text(workspace),
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
