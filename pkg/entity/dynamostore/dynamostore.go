// Package dynamostore keeps entities in a DynamoDB table.
//
// The table's partition key is workspace (S), its sort key id (S): DynamoDB
// sorts strings by bytes, which is the order of lists. The other attributes
// are type, attributes (JSON text), created_at and updated_at (the text of
// record.Time), and type_key: workspace, '#', type. All are S. attributes is text
// and not a map, so that it keeps its bytes: DynamoDB's numbers have 38 digits
// and no trailing zeros.
//
// The global secondary index by_type, of type_key and id, serves lists of one
// type. It projects all attributes, so that a list is one query.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
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

// Store is an entity.Store. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

// New returns a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("entity dynamostore: a client and a table name are required")
	}
	return &Store{client: client, table: table}, nil
}

// Create implements entity.Store with one conditional PutItem.
func (s *Store) Create(ctx context.Context, workspace string, e entity.Entity) (stored entity.Entity, created bool, err error) {
	return dynamorecord.Create(ctx, s.client, s.table, "workspace", e, toItem(workspace, e), fromItem)
}

// Replace implements entity.Store with a put on the condition that the item still
// has every attribute of was. If the SDK retries a put whose response was lost, the
// retry finds e, so Replace reports false.
func (s *Store) Replace(ctx context.Context, workspace string, was, e entity.Entity) (replaced bool, err error) {
	in := &dynamodb.PutItemInput{
		TableName:                 &s.table,
		Item:                      toItem(workspace, e),
		ExpressionAttributeNames:  make(map[string]string),
		ExpressionAttributeValues: make(dynamorecord.Item),
	}
	var conditions []string
	for name, value := range toItem(workspace, was) {
		conditions = append(conditions, fmt.Sprintf("#%s = :%[1]s", name))
		in.ExpressionAttributeNames["#"+name], in.ExpressionAttributeValues[":"+name] = name, value
	}
	in.ConditionExpression = aws.String(strings.Join(conditions, " AND "))
	_, err = s.client.PutItem(ctx, in)
	var differs *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &differs):
		return false, nil
	case err != nil:
		return false, dynamorecord.Error("replace entity", err)
	}
	return true, nil
}

// Delete implements entity.Store.
func (s *Store) Delete(ctx context.Context, workspace, id string) error {
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: key(workspace, id)})
	if err != nil {
		return dynamorecord.Error("delete entity", err)
	}
	return nil
}

// Get implements entity.Store. The read is strongly consistent.
func (s *Store) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	e, found, err := dynamorecord.Get(ctx, s.client, s.table, key(workspace, id), fromItem)
	if err == nil && !found {
		err = record.NotFoundError("entity", id)
	}
	return e, err
}

// List implements entity.Store. The read is eventually consistent, at half the
// price: an entity may be missing for a moment after its creation.
func (s *Store) List(ctx context.Context, workspace string, q entity.Query) (page entity.Page, err error) {
	page.Entities, page.More, err = dynamorecord.Page(ctx, s.client, "id", q.Limit, fromItem, s.query(workspace, q.Type, q.AfterID))
	return page, err
}

// Count implements entity.Store, as consistently as List.
func (s *Store) Count(ctx context.Context, workspace string, q entity.Query, until record.Time) (int64, error) {
	return dynamorecord.Count(ctx, s.client, "created_at", until.String(), s.query(workspace, q.Type, ""))
}

// query returns a query for the entities of a type, "" for all, after an id.
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

// typeKey returns the partition key of by_type for a workspace's entities of a
// type. It is unique, because a workspace's name has no '#'.
func typeKey(workspace, typ string) string { return workspace + "#" + typ }

func toItem(workspace string, e entity.Entity) dynamorecord.Item {
	return dynamorecord.Item{
		"workspace":  dynamorecord.Text(workspace),
		"id":         dynamorecord.Text(e.ID),
		"type":       dynamorecord.Text(e.Type),
		"type_key":   dynamorecord.Text(typeKey(workspace, e.Type)),
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
