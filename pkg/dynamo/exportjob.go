package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// ExportJobsClient is the part of *dynamodb.Client that a Store uses.
type ExportJobsClient interface {
	getter
	querier
	dynamodb.ScanAPIClient
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// ExportJobs is an exportjob.Store and exportjob.Backlog. It is safe for concurrent use.
//
// It stores export jobs in a DynamoDB table.
//
// The table's partition key is workspace (S) and its sort key is id (S). The attributes
// job and progress (S) hold the complete job (see exportjob.Marshal). DynamoDB needs the
// other attributes:
//
//   - status and lane (S) are for the filters of the table's stream. A job that does not
//     wait for a run has no lane.
//   - position (S, Job.Position) is for the indexes.
//   - revision (N) is for conditional writes.
//   - expires_at (N, Unix time in seconds) is for the TTL. Only jobs that have ended have
//     this attribute.
//
// Each workspace has one item with the id #unfinished, which no job can have. Its
// attribute jobs (SS) holds the ids of the unfinished jobs. It changes in the same
// transaction as a job, so it always agrees with the jobs.
//
// The global secondary index by_position has the keys workspace and position and serves
// lists. It projects job, but not progress. The index by_status has the keys status and
// position and serves OldestQueued. It projects only keys, so a change of the progress
// writes nothing to it.
type ExportJobs struct {
	client ExportJobsClient
	table  string
}

// NewExportJobs returns a Store in the named table.
func NewExportJobs(client ExportJobsClient, table string) (*ExportJobs, error) {
	if client == nil || table == "" {
		return nil, errors.New("dynamo: a client and a table name are required")
	}
	return &ExportJobs{client: client, table: table}, nil
}

// Create implements exportjob.Store with one transaction.
func (s *ExportJobs) Create(ctx context.Context, j exportjob.Job, quota int) (stored exportjob.Job, created bool, err error) {
	put := &types.Put{ConditionExpression: aws.String("attribute_not_exists(#revision)")}
	count := s.count(j)
	count.Update.ConditionExpression = aws.String("attribute_not_exists(#jobs) OR size(#jobs) < :quota")
	count.Update.ExpressionAttributeValues[":quota"] = number(int64(quota))
	return s.write(ctx, "create export job", j, exportjob.TooManyError(quota), put, count)
}

// Get implements exportjob.Store. The read is strongly consistent.
func (s *ExportJobs) Get(ctx context.Context, workspace, id string) (exportjob.Job, error) {
	j, found, err := getItem(ctx, s.client, s.table, exportJobKey(workspace, id), exportJobFromItem)
	if err == nil && !found {
		err = exportjob.NotFoundError(id)
	}
	return j, err
}

// List implements exportjob.Store. The index is eventually consistent, so a job may be missing
// or in its earlier state for a moment after a change.
func (s *ExportJobs) List(ctx context.Context, workspace string, q exportjob.Query) (record.Page[exportjob.Job], error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String("by_position"),
		ScanIndexForward:          aws.Bool(false),
		KeyConditionExpression:    aws.String("#workspace = :workspace"),
		ExpressionAttributeNames:  map[string]string{"#workspace": "workspace"},
		ExpressionAttributeValues: attributeValues{":workspace": text(workspace)},
	}
	if q.Before != nil {
		*in.KeyConditionExpression += " AND #position < :before"
		in.ExpressionAttributeNames["#position"] = "position"
		in.ExpressionAttributeValues[":before"] = text(q.Before.String())
	}
	return queryPage(ctx, s.client, "position", q.Limit, exportJobFromItem, in)
}

// Replace implements exportjob.Store with one transaction.
func (s *ExportJobs) Replace(ctx context.Context, j exportjob.Job) (stored exportjob.Job, replaced bool, err error) {
	put := &types.Put{
		ConditionExpression:       aws.String("#revision = :was"),
		ExpressionAttributeValues: attributeValues{":was": number(j.Revision - 1)},
	}
	var counts []types.TransactWriteItem
	if j.Status.Final() {
		counts = append(counts, s.count(j))
	}
	return s.write(ctx, "replace export job", j, exportjob.NotFoundError(j.ID), put, counts...)
}

// A transaction that is throttled or conflicts with another transaction is tried again
// after a random wait. There are at most maxTries tries. The first wait is at most
// firstWait. The maximum wait doubles with each try.
const (
	maxTries  = 10
	firstWait = 5 * time.Millisecond
)

// write stores j in a transaction. The same transaction executes the operations in counts.
// write returns the job that is stored after the call, and reports whether that job is j. If a
// condition fails and no job is stored, the error is errAbsent. The parameter put holds the
// condition for storing j.
//
// The SDK repeats a transaction with the same token if the response was lost. DynamoDB
// then reports success without writing again.
func (s *ExportJobs) write(ctx context.Context, op string, j exportjob.Job, errAbsent error, put *types.Put, counts ...types.TransactWriteItem) (stored exportjob.Job, written bool, err error) {
	put.TableName, put.ExpressionAttributeNames = &s.table, map[string]string{"#revision": "revision"}
	put.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	if put.Item, err = exportJobToItem(j); err != nil {
		return exportjob.Job{}, false, err
	}
	writes := append([]types.TransactWriteItem{{Put: put}}, counts...)
	for try := range maxTries {
		_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		var cancelled *types.TransactionCanceledException
		if err == nil {
			return j, true, nil
		} else if !errors.As(err, &cancelled) {
			return exportjob.Job{}, false, storeError(op, err)
		}
		reasons := cancelled.CancellationReasons
		passing := hasCode(reasons, "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")
		switch {
		case reasons[0].Item != nil:
			stored, err = exportJobFromItem(reasons[0].Item)
			return stored, false, err
		case !passing && hasCode(reasons, "ConditionalCheckFailed"):
			return exportjob.Job{}, false, errAbsent
		case !passing:
			return exportjob.Job{}, false, storeError(op, err)
		}
		select {
		case <-time.After(rand.N(firstWait << try)):
		case <-ctx.Done():
		}
	}
	return exportjob.Job{}, false, record.UnavailableError(op, err)
}

// hasCode reports whether any of the reasons has one of the codes.
func hasCode(reasons []types.CancellationReason, codes ...string) bool {
	return slices.ContainsFunc(reasons, func(r types.CancellationReason) bool { return slices.Contains(codes, aws.ToString(r.Code)) })
}

// count returns a write that updates the ids of the unfinished jobs of a workspace. The
// write adds the id of j or, if j has ended, removes it.
func (s *ExportJobs) count(j exportjob.Job) types.TransactWriteItem {
	action := "ADD"
	if j.Status.Final() {
		action = "DELETE"
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &s.table,
		Key:                       exportJobKey(j.Workspace, "#unfinished"),
		UpdateExpression:          aws.String(action + " #jobs :job"),
		ExpressionAttributeNames:  map[string]string{"#jobs": "jobs"},
		ExpressionAttributeValues: attributeValues{":job": &types.AttributeValueMemberSS{Value: []string{j.ID}}},
	}}
}

// Unfinished implements exportjob.Backlog. It scans the whole table.
func (s *ExportJobs) Unfinished(ctx context.Context) ([]exportjob.Key, error) {
	found, err := scanItems(ctx, s.client, &dynamodb.ScanInput{
		TableName:                &s.table,
		ConsistentRead:           aws.Bool(true),
		FilterExpression:         aws.String("attribute_exists(#jobs)"),
		ExpressionAttributeNames: map[string]string{"#jobs": "jobs"},
	}, func(item attributeValues) (keys []exportjob.Key, err error) {
		r := readItem(item)
		if ids, ok := item["jobs"].(*types.AttributeValueMemberSS); ok {
			for _, id := range ids.Value {
				keys = append(keys, exportjob.Key{Workspace: r.text("workspace"), ID: id})
			}
		}
		return keys, r.err()
	})
	return slices.Concat(found...), err
}

func exportJobKey(workspace, id string) attributeValues {
	return attributeValues{"workspace": text(workspace), "id": text(id)}
}

func exportJobToItem(j exportjob.Job) (attributeValues, error) {
	job, progress, err := exportjob.Marshal(j)
	if err != nil {
		return nil, err
	}
	item := exportJobKey(j.Workspace, j.ID)
	item["status"] = text(string(j.Status))
	item["position"] = text(j.Position().String())
	item["revision"] = number(j.Revision)
	item["job"] = text(string(job))
	if progress != nil {
		item["progress"] = text(string(progress))
	}
	if lane := j.Lane(); lane != "" {
		item["lane"] = text(string(lane))
	}
	if j.Status.Final() {
		item["expires_at"] = number(j.CreatedAt.Time().AddDate(0, 0, exportjob.HistoryDays).Unix())
	}
	return item, nil
}

func exportJobFromItem(item attributeValues) (exportjob.Job, error) {
	r := readItem(item)
	job, progress := r.text("job"), r.optionalText("progress")
	if err := r.err(); err != nil {
		return exportjob.Job{}, fmt.Errorf("read export job: %w", err)
	}
	return exportjob.Unmarshal([]byte(job), []byte(progress))
}
