// Package dynamostore keeps erasure jobs in a DynamoDB table.
//
// The table's partition key is workspace (S) and its sort key is id (S). The attribute
// job (S) has the complete job (erasurejob.Marshal). DynamoDB needs the other attributes:
//
//   - status (S) is for the filter of the table's stream.
//   - revision (N) is for conditional puts.
//   - expires_at (N, Unix time in seconds) is for the TTL. Only jobs that have ended have
//     this attribute.
package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/erasurejob"
	"sluice/pkg/record/dynamorecord"
)

// Client is the part of *dynamodb.Client that a Store uses.
type Client interface {
	dynamorecord.Getter
	dynamorecord.Putter
	dynamodb.ScanAPIClient
}

// Store is an erasurejob.Store and erasurejob.Backlog. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

// New returns a Store that keeps its jobs in table. It returns an error if client is nil or
// table is empty.
func New(client Client, table string) (*Store, error) {
	if client == nil || table == "" {
		return nil, errors.New("erasurejob dynamostore: a client and a table name are required")
	}
	return &Store{client: client, table: table}, nil
}

// Open returns a Store that keeps its jobs in the table that the environment variable
// ERASURE_JOBS_TABLE names.
func Open(client Client, getenv func(string) string) (*Store, error) {
	s, err := New(client, getenv("ERASURE_JOBS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("ERASURE_JOBS_TABLE: %w", err)
	}
	return s, nil
}

// Get implements erasurejob.Store. The read is strongly consistent.
func (s *Store) Get(ctx context.Context, workspace, id string) (erasurejob.Job, error) {
	key := dynamorecord.Item{"workspace": dynamorecord.Text(workspace), "id": dynamorecord.Text(id)}
	j, found, err := dynamorecord.Get(ctx, s.client, s.table, key, fromItem)
	if err == nil && !found {
		err = erasurejob.NotFoundError(id)
	}
	return j, err
}

// Replace implements erasurejob.Store with one conditional put. If the response of a put
// is lost, the SDK retries the put. The retry finds that j is already stored, and Replace
// reports true.
func (s *Store) Replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	item, err := toItem(j)
	if err != nil {
		return false, err
	}
	in := &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(#revision)"),
		ExpressionAttributeNames:            map[string]string{"#revision": "revision"},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if j.Revision > 1 {
		in.ConditionExpression = aws.String("#revision = :was")
		in.ExpressionAttributeValues = dynamorecord.Item{":was": dynamorecord.Number(j.Revision - 1)}
	}
	_, err = s.client.PutItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &failed):
		return dynamorecord.Read(failed.Item).OptionalText("job") == dynamorecord.Read(item).Text("job"), nil
	}
	return false, dynamorecord.Error("replace erasure job", err)
}

// Unfinished implements erasurejob.Backlog. It reads the whole table.
func (s *Store) Unfinished(ctx context.Context) (keys []erasurejob.Key, err error) {
	return dynamorecord.Scan(ctx, s.client, &dynamodb.ScanInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		FilterExpression:          aws.String("#status IN (:queued, :running)"),
		ExpressionAttributeNames:  map[string]string{"#status": "status"},
		ExpressionAttributeValues: dynamorecord.Item{":queued": dynamorecord.Text(string(erasurejob.Queued)), ":running": dynamorecord.Text(string(erasurejob.Running))},
	}, func(item dynamorecord.Item) (erasurejob.Key, error) {
		r := dynamorecord.Read(item)
		return erasurejob.Key{Workspace: r.Text("workspace"), ID: r.Text("id")}, r.Err()
	})
}

func toItem(j erasurejob.Job) (dynamorecord.Item, error) {
	job, err := erasurejob.Marshal(j)
	if err != nil {
		return nil, err
	}
	item := dynamorecord.Item{
		"workspace": dynamorecord.Text(j.Workspace),
		"id":        dynamorecord.Text(j.ID),
		"status":    dynamorecord.Text(string(j.Status)),
		"revision":  dynamorecord.Number(j.Revision),
		"job":       dynamorecord.Text(string(job)),
	}
	if at, ok := j.ExpiresAt(); ok {
		item["expires_at"] = dynamorecord.Number(at.Unix())
	}
	return item, nil
}

func fromItem(item dynamorecord.Item) (erasurejob.Job, error) {
	r := dynamorecord.Read(item)
	job := r.Text("job")
	if err := r.Err(); err != nil {
		return erasurejob.Job{}, fmt.Errorf("read erasure job: %w", err)
	}
	return erasurejob.Unmarshal([]byte(job))
}
