package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// JobsClient is the part of *dynamodb.Client that Jobs uses.
type JobsClient interface {
	getter
	putter
	querier
	dynamodb.ScanAPIClient
	transactor
}

// Jobs is the job.Backlog of one job.Kind, in its own table. It is safe for concurrent use.
//
// The partition key is workspace (S), and the sort key is id (S). The attributes job and
// checkpoint (S) hold the whole job, as JSON. The other attributes are for DynamoDB:
//
//   - status and lane (S) are for the filters of the table's stream. A job that is not waiting
//     for a run has no lane.
//   - position (S, record.Position.String) is for the indexes.
//   - revision (N) is for conditional writes.
//   - expires_at (N, Unix time in seconds) is for the TTL. Only jobs that have ended have it.
//
// A workspace whose unfinished jobs are counted has an item with the id #unfinished, which no
// job can have. Its attribute jobs (SS) holds the ids of those jobs. The item changes in the
// transaction in which a job begins or ends, so it always agrees with the jobs.
//
// The index by_position has the keys workspace and position, for List. It projects job, but
// not checkpoint. The index by_status has the keys status and position, for OldestUnfinished. It
// projects only keys, so saving a checkpoint writes nothing to it. A table needs an index only if
// the method that reads it is called.
type Jobs struct {
	client JobsClient
	kind   job.Kind
	table  string
}

// NewJobs fails if client is nil or the table name is empty.
func NewJobs(client JobsClient, kind job.Kind, table string) (*Jobs, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Jobs{client: client, kind: kind, table: table}, nil
}

// Throttled transactions, and writes that conflict with a transaction, are retried after a
// random wait. The first wait is at most firstWait, and this bound doubles with each retry.
const (
	maxTries  = 10
	firstWait = 5 * time.Millisecond
)

// Put implements job.Store with a conditional PutItem or, if counts(j) is true, a transaction.
func (s *Jobs) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	op := "put " + s.kind.String()
	item, err := jobToItem(j)
	if err != nil {
		return job.Job{}, false, fmt.Errorf("%s: %w", op, err)
	}
	for try := range maxTries {
		var there attributeValues
		there, err = s.write(ctx, j, item)
		var conflict *types.TransactionConflictException
		var cancelled *types.TransactionCanceledException
		switch {
		case err == nil && there == nil:
			return j, true, nil
		case err == nil:
			stored, err = jobFromItem(there)
			// The SDK retries a put whose response was lost, so the item may be from the first try.
			return stored, !counts(j) && reflect.DeepEqual(there, item), err
		case errors.As(err, &conflict), errors.As(err, &cancelled) && hasCode(cancelled.CancellationReasons, passing...):
		case record.CodeOf(err) != 0:
			return job.Job{}, false, err
		default:
			return job.Job{}, false, storeError(op, err)
		}
		select {
		case <-time.After(rand.N(firstWait << try)):
		case <-ctx.Done():
		}
	}
	return job.Job{}, false, record.UnavailableError(op, err)
}

// passing has the codes of cancelled transactions that may succeed if retried.
var passing = []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}

// counts reports whether a put of j also changes the number of unfinished jobs.
func counts(j job.Job) bool { return j.Quota > 0 && (j.StartedAt == nil || j.Status.Final()) }

// write makes one attempt to put j, encoded as item. If a condition is false, it returns the
// stored item, or an error with code NotFound or a *job.QuotaError. If the response to a transaction was
// lost, the SDK retries with the same token, and DynamoDB reports success without writing
// again.
func (s *Jobs) write(ctx context.Context, j job.Job, item attributeValues) (there attributeValues, err error) {
	condition, names, values := aws.String("attribute_not_exists(#revision)"), map[string]string{"#revision": "revision"}, attributeValues(nil)
	if j.Revision > 1 {
		condition, values = aws.String("#revision = :was"), attributeValues{":was": number(j.Revision - 1)}
	}
	const old = types.ReturnValuesOnConditionCheckFailureAllOld
	if !counts(j) {
		_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table, Item: item,
			ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: old,
		})
		var failed *types.ConditionalCheckFailedException
		switch {
		case !errors.As(err, &failed):
			return nil, err
		case len(failed.Item) == 0:
			return nil, s.kind.NotFoundError(j.ID)
		}
		return failed.Item, nil
	}
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: &types.Put{
		TableName: &s.table, Item: item,
		ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: old,
	}}, {Update: s.count(j)}}})
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return nil, err
	}
	ofJob, ofCount := cancelled.CancellationReasons[:1], cancelled.CancellationReasons[1:]
	switch {
	case ofJob[0].Item != nil:
		return ofJob[0].Item, nil
	case hasCode(cancelled.CancellationReasons, passing...):
		return nil, err
	case hasCode(ofJob, "ConditionalCheckFailed"):
		return nil, s.kind.NotFoundError(j.ID)
	case hasCode(ofCount, "ConditionalCheckFailed"):
		return nil, &job.QuotaError{Kind: s.kind, Quota: j.Quota}
	}
	return nil, err
}

func hasCode(reasons []types.CancellationReason, codes ...string) bool {
	return slices.ContainsFunc(reasons, func(r types.CancellationReason) bool { return slices.Contains(codes, aws.ToString(r.Code)) })
}

// count returns the update of the item #unfinished for the transaction that puts j.
func (s *Jobs) count(j job.Job) *types.Update {
	u := &types.Update{
		TableName:                 &s.table,
		Key:                       jobKey(j.Workspace, "#unfinished"),
		UpdateExpression:          aws.String("DELETE #jobs :job"),
		ExpressionAttributeNames:  map[string]string{"#jobs": "jobs"},
		ExpressionAttributeValues: attributeValues{":job": &types.AttributeValueMemberSS{Value: []string{j.ID}}},
	}
	if !j.Status.Final() {
		u.UpdateExpression = aws.String("ADD #jobs :job")
		u.ConditionExpression = aws.String("attribute_not_exists(#jobs) OR size(#jobs) < :quota OR contains(#jobs, :id)")
		u.ExpressionAttributeValues[":quota"], u.ExpressionAttributeValues[":id"] = number(int64(j.Quota)), text(j.ID)
	}
	return u
}

// Get implements job.Store with a strongly consistent read.
func (s *Jobs) Get(ctx context.Context, workspace, id string) (job.Job, error) {
	j, found, err := getItem(ctx, s.client, s.table, jobKey(workspace, id), jobFromItem)
	if err == nil && !found {
		err = s.kind.NotFoundError(id)
	}
	return j, err
}

// List implements job.Store with eventually consistent reads of an index: for a moment, a job
// may be missing or in an earlier state.
func (s *Jobs) List(ctx context.Context, workspace string, cursor record.Cursor, limit int) (record.Page[job.Job], error) {
	low, high, err := record.Bounds(nil, nil, cursor, false)
	if err != nil {
		return record.Page[job.Job]{}, err
	}
	in := between(s.table, "by_position", "workspace", workspace, "position", low, high, false)
	return queryPage(ctx, s.client, "position", limit, jobFromItem, in)
}

// Unfinished implements job.Backlog. It reads the whole table.
func (s *Jobs) Unfinished(ctx context.Context) ([]job.Key, error) {
	jobs, err := scanItems(ctx, s.client, &dynamodb.ScanInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		FilterExpression:          aws.String("attribute_exists(#job) AND #status <> :succeeded"),
		ExpressionAttributeNames:  map[string]string{"#job": "job", "#status": "status"},
		ExpressionAttributeValues: attributeValues{":succeeded": text(string(job.Succeeded))},
	}, jobFromItem)
	var keys []job.Key
	for _, j := range jobs {
		if !j.Status.Final() || j.Unclean {
			keys = append(keys, job.Key{Workspace: j.Workspace, ID: j.ID})
		}
	}
	return keys, err
}

// OldestUnfinished returns the creation time of the oldest queued or running job of all
// workspaces; ok is false if there is none. It reads at most two items of the index by_status,
// which is eventually consistent.
func (s *Jobs) OldestUnfinished(ctx context.Context) (created record.Time, ok bool, err error) {
	op := "find the oldest unfinished " + s.kind.String()
	for _, status := range []job.Status{job.Queued, job.Running} {
		in := between(s.table, "by_status", "status", string(status), "position", "", "", true)
		in.Limit = aws.Int32(1)
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return record.Time{}, false, storeError(op, err)
		}
		if len(out.Items) == 0 {
			continue
		}
		position, err := record.ParsePosition(readItem(out.Items[0]).text("position"))
		if err != nil {
			return record.Time{}, false, fmt.Errorf("%s: %w", op, err)
		}
		if !ok || position.At.Compare(created) < 0 {
			created, ok = position.At, true
		}
	}
	return created, ok, nil
}

func jobKey(workspace, id string) attributeValues {
	return attributeValues{"workspace": text(workspace), "id": text(id)}
}

func jobToItem(j job.Job) (attributeValues, error) {
	item := jobKey(j.Workspace, j.ID)
	item["status"] = text(string(j.Status))
	item["position"] = text(j.Position().String())
	item["revision"] = number(j.Revision)
	if j.Checkpoint != nil {
		item["checkpoint"] = text(string(j.Checkpoint))
	}
	if lane := j.Lane(); lane != "" {
		item["lane"] = text(string(lane))
	}
	if j.ExpiresAt != nil {
		item["expires_at"] = number(j.ExpiresAt.Time().Unix())
	}
	j.Checkpoint = nil
	whole, err := json.Marshal(j)
	item["job"] = text(string(whole))
	return item, err
}

func jobFromItem(item attributeValues) (j job.Job, err error) {
	r := readItem(item)
	whole, checkpoint := r.text("job"), r.optionalText("checkpoint")
	if err = r.err(); err == nil {
		err = json.Unmarshal([]byte(whole), &j)
	}
	if err != nil {
		return job.Job{}, fmt.Errorf("read job: %w", err)
	}
	if checkpoint != "" {
		j.Checkpoint = json.RawMessage(checkpoint)
	}
	return j, nil
}
