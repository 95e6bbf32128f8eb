// Package dynamostore keeps export jobs in a DynamoDB table.
//
// The table's partition key is workspace (S), its sort key id (S). The other
// attributes are job (S: exportjob.Marshal, which is all there is), and what the
// table itself must understand: status (S, for the filter of its stream),
// position (S: exportjob.Position.String), revision (N) and expires_at (N, Unix
// time, for the TTL).
//
// The global secondary index by_position, of workspace and position, serves
// lists. It holds all attributes. The index by_status, of status and position,
// serves OldestQueued. It holds only keys, so that a job's progress does not
// change it.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/exportjob"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Putter
	dynamorecord.Getter
	dynamorecord.Querier
	dynamodb.ScanAPIClient
}

// Store is an exportjob.Store and exportjob.Backlog. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

// New makes a Store over the table of that name.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("exportjob dynamostore: a client and a table name are required")
	}
	return &Store{client: client, table: table}, nil
}

// Create implements exportjob.Store with one PutItem, whose refusal brings the
// job that is there. See dynamorecord.Create about repeats by the SDK.
func (s *Store) Create(ctx context.Context, j exportjob.Job) (stored exportjob.Job, created bool, err error) {
	item, err := toItem(j)
	if err != nil {
		return exportjob.Job{}, false, err
	}
	item, created, err = dynamorecord.Create(ctx, s.client, s.table, "workspace", item)
	if err != nil {
		return exportjob.Job{}, false, dynamorecord.Error("create export job", err)
	}
	stored, err = fromItem(item)
	return stored, created, err
}

// Get implements exportjob.Store. The read is strongly consistent.
func (s *Store) Get(ctx context.Context, workspace, id string) (exportjob.Job, error) {
	item, err := dynamorecord.Get(ctx, s.client, s.table, dynamorecord.Item{"workspace": dynamorecord.Text(workspace), "id": dynamorecord.Text(id)})
	switch {
	case err != nil:
		return exportjob.Job{}, dynamorecord.Error("get export job", err)
	case item == nil:
		return exportjob.Job{}, exportjob.NotFoundError(id)
	}
	return fromItem(item)
}

// List implements exportjob.Store. An index is only ever read eventually
// consistent: a job may be missing, or be shown as it was, for a moment.
func (s *Store) List(ctx context.Context, workspace string, q exportjob.Query) (exportjob.Page, error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String("by_position"),
		ScanIndexForward:          aws.Bool(false),
		KeyConditionExpression:    aws.String("#workspace = :workspace"),
		ExpressionAttributeNames:  map[string]string{"#workspace": "workspace"},
		ExpressionAttributeValues: dynamorecord.Item{":workspace": dynamorecord.Text(workspace)},
	}
	if q.Before != nil {
		*in.KeyConditionExpression += " AND #position < :before"
		in.ExpressionAttributeNames["#position"] = "position"
		in.ExpressionAttributeValues[":before"] = dynamorecord.Text(q.Before.String())
	}
	items, more, err := dynamorecord.Page(ctx, s.client, in, q.Limit)
	if err != nil {
		return exportjob.Page{}, dynamorecord.Error("list export jobs", err)
	}
	jobs, err := dynamorecord.Each(items, fromItem)
	return exportjob.Page{Jobs: jobs, More: more}, err
}

// Replace implements exportjob.Store with one PutItem. When the SDK repeats it,
// since the answer was lost, the repeat is refused and finds j: then it has been
// replaced.
func (s *Store) Replace(ctx context.Context, j exportjob.Job) (stored exportjob.Job, replaced bool, err error) {
	item, err := toItem(j)
	if err != nil {
		return exportjob.Job{}, false, err
	}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                item,
		ConditionExpression:                 aws.String("#revision = :was"),
		ExpressionAttributeNames:            map[string]string{"#revision": "revision"},
		ExpressionAttributeValues:           dynamorecord.Item{":was": number(j.Revision - 1)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var differs *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return j, true, nil
	case !errors.As(err, &differs):
		return exportjob.Job{}, false, dynamorecord.Error("replace export job", err)
	case differs.Item == nil:
		return exportjob.Job{}, false, exportjob.NotFoundError(j.ID)
	}
	if stored, err = fromItem(differs.Item); err != nil {
		return exportjob.Job{}, false, err
	}
	return stored, document(item) == document(differs.Item), nil
}

// Unfinished implements exportjob.Backlog. It reads the whole table.
func (s *Store) Unfinished(ctx context.Context) (keys []exportjob.Key, err error) {
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName:                &s.table,
		ConsistentRead:           aws.Bool(true),
		FilterExpression:         aws.String("#status IN (:queued, :running)"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: dynamorecord.Item{
			":queued": dynamorecord.Text(string(exportjob.Queued)), ":running": dynamorecord.Text(string(exportjob.Running)),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, dynamorecord.Error("list unfinished export jobs", err)
		}
		for _, item := range page.Items {
			r := dynamorecord.Read(item)
			keys = append(keys, exportjob.Key{Workspace: r.Text("workspace"), ID: r.Text("id")})
		}
	}
	return keys, nil
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func toItem(j exportjob.Job) (dynamorecord.Item, error) {
	b, err := exportjob.Marshal(j)
	if err != nil {
		return nil, err
	}
	return dynamorecord.Item{
		"workspace":  dynamorecord.Text(j.Workspace),
		"id":         dynamorecord.Text(j.ID),
		"status":     dynamorecord.Text(string(j.Status)),
		"position":   dynamorecord.Text(j.Position().String()),
		"revision":   number(j.Revision),
		"expires_at": number(j.CreatedAt.Time().AddDate(0, 0, exportjob.HistoryDays).Unix()),
		"job":        dynamorecord.Text(string(b)),
	}, nil
}

func fromItem(item dynamorecord.Item) (exportjob.Job, error) {
	r := dynamorecord.Read(item)
	text := r.Text("job")
	if err := r.Err(); err != nil {
		return exportjob.Job{}, fmt.Errorf("read export job: %w", err)
	}
	return exportjob.Unmarshal([]byte(text))
}

// document is the text of a job, "" if item has none.
func document(item dynamorecord.Item) string { return dynamorecord.Read(item).OptionalText("job") }
