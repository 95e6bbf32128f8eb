package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/erasurejob"
)

// ErasureJobsClient is the part of *dynamodb.Client that a Store uses.
type ErasureJobsClient interface {
	getter
	putter
	dynamodb.ScanAPIClient
}

// ErasureJobs is an erasurejob.Store and erasurejob.Backlog. It is safe for concurrent use.
//
// It keeps erasure jobs in a DynamoDB table.
//
// The table's partition key is workspace (S) and its sort key is id (S). The attribute
// job (S) has the complete job (erasurejob.Marshal). DynamoDB needs the other attributes:
//
//   - status (S) is for the filter of the table's stream.
//   - revision (N) is for conditional puts.
//   - expires_at (N, Unix time in seconds) is for the TTL. Only jobs that have ended have
//     this attribute.
type ErasureJobs struct {
	client ErasureJobsClient
	table  string
}

// NewErasureJobs returns a Store that keeps its jobs in table. It returns an error if client is nil or
// table is empty.
func NewErasureJobs(client ErasureJobsClient, table string) (*ErasureJobs, error) {
	if client == nil || table == "" {
		return nil, errors.New("dynamo: a client and a table name are required")
	}
	return &ErasureJobs{client: client, table: table}, nil
}

// OpenErasureJobs returns a Store that keeps its jobs in the table that the environment variable
// ERASURE_JOBS_TABLE names.
func OpenErasureJobs(client ErasureJobsClient, getenv func(string) string) (*ErasureJobs, error) {
	s, err := NewErasureJobs(client, getenv("ERASURE_JOBS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("ERASURE_JOBS_TABLE: %w", err)
	}
	return s, nil
}

// Get implements erasurejob.Store. The read is strongly consistent.
func (s *ErasureJobs) Get(ctx context.Context, workspace, id string) (erasurejob.Job, error) {
	key := attributeValues{"workspace": text(workspace), "id": text(id)}
	j, found, err := getItem(ctx, s.client, s.table, key, erasureJobFromItem)
	if err == nil && !found {
		err = erasurejob.NotFoundError(id)
	}
	return j, err
}

// Replace implements erasurejob.Store with one conditional put. If the response of a put
// is lost, the SDK retries the put. The retry finds that j is already stored, and Replace
// reports true.
func (s *ErasureJobs) Replace(ctx context.Context, j erasurejob.Job) (bool, error) {
	item, err := erasureJobToItem(j)
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
		in.ExpressionAttributeValues = attributeValues{":was": number(j.Revision - 1)}
	}
	_, err = s.client.PutItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &failed):
		return readItem(failed.Item).optionalText("job") == readItem(item).text("job"), nil
	}
	return false, storeError("replace erasure job", err)
}

// Unfinished implements erasurejob.Backlog. It reads the whole table.
func (s *ErasureJobs) Unfinished(ctx context.Context) (keys []erasurejob.Key, err error) {
	return scanItems(ctx, s.client, &dynamodb.ScanInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		FilterExpression:          aws.String("#status IN (:queued, :running)"),
		ExpressionAttributeNames:  map[string]string{"#status": "status"},
		ExpressionAttributeValues: attributeValues{":queued": text(string(erasurejob.Queued)), ":running": text(string(erasurejob.Running))},
	}, func(item attributeValues) (erasurejob.Key, error) {
		r := readItem(item)
		return erasurejob.Key{Workspace: r.text("workspace"), ID: r.text("id")}, r.err()
	})
}

func erasureJobToItem(j erasurejob.Job) (attributeValues, error) {
	job, err := erasurejob.Marshal(j)
	if err != nil {
		return nil, err
	}
	item := attributeValues{
		"workspace": text(j.Workspace),
		"id":        text(j.ID),
		"status":    text(string(j.Status)),
		"revision":  number(j.Revision),
		"job":       text(string(job)),
	}
	if at, ok := j.ExpiresAt(); ok {
		item["expires_at"] = number(at.Unix())
	}
	return item, nil
}

func erasureJobFromItem(item attributeValues) (erasurejob.Job, error) {
	r := readItem(item)
	job := r.text("job")
	if err := r.err(); err != nil {
		return erasurejob.Job{}, fmt.Errorf("read erasure job: %w", err)
	}
	return erasurejob.Unmarshal([]byte(job))
}
