package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

var reports = job.Kind{Name: "report", Keep: 30 * 24 * time.Hour}

func openJobs(t *testing.T, client JobsClient, kind job.Kind) *Jobs {
	t.Helper()
	s, err := NewJobs(client, kind, dynamolocal.Table(t, "ExportJobsTable")) // this table has both indexes
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJobs(t *testing.T) {
	storetest.Jobs(t, func(t *testing.T, kind job.Kind) job.Backlog { return openJobs(t, dynamolocal.Client(t), kind) })
}

func report(id string, quota int, at time.Time) job.Job {
	return job.Job{ID: id, Workspace: "default", Status: job.Queued, Quota: quota, CreatedAt: record.TimeOf(at), Until: record.TimeOf(at), Revision: 1}
}

func putJob(t *testing.T, s *Jobs, j job.Job) job.Job {
	t.Helper()
	if stored, put, err := s.Put(t.Context(), j); !put || err != nil || stored.Run != j.Run {
		t.Fatalf("put %v, error %v, stored %+v", put, err, stored)
	}
	j.Revision++
	return j
}

type loses struct {
	next aws.HTTPClient
	left atomic.Int64 // how many more responses to lose
}

func (c *loses) Do(r *http.Request) (*http.Response, error) {
	response, err := c.next.Do(r)
	if err != nil || c.left.Add(-1) < 0 {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

// A retried call must neither apply a change twice nor report that the change was not applied.
func TestChangesAreAppliedOnceIfResponsesAreLost(t *testing.T) {
	t.Parallel()
	for _, quota := range []int{0, 1} {
		network := &loses{}
		options := dynamolocal.Client(t).Options()
		network.next, options.HTTPClient = options.HTTPClient, network
		s := openJobs(t, dynamodb.New(options), reports)
		j := report("a", quota, time.Now())
		network.left.Store(1)
		j = putJob(t, s, j)
		j.Status, j.StartedAt, j.Run, j.Checkpoint = job.Running, &j.CreatedAt, "run", json.RawMessage(`{"n":1}`)
		network.left.Store(1)
		j = putJob(t, s, j)
		for _, changed := range []func(*job.Job){
			func(j *job.Job) { j.Checkpoint = json.RawMessage(`{"n":2}`) }, // same revision and run, but different content
			func(j *job.Job) { j.Run = "other" },
		} {
			again := j
			again.Revision--
			changed(&again)
			if stored, put, err := s.Put(t.Context(), again); put || err != nil || stored.Run != "run" {
				t.Errorf("put %v, error %v, stored %+v", put, err, stored)
			}
		}
		network.left.Store(1)
		if j, err := reports.Cancel(t.Context(), s, "default", "a", time.Now()); err != nil || j.Status != job.Cancelled || j.Revision != 3 {
			t.Errorf("cancelled %+v, error %v", j, err)
		}
		if keys, err := s.Unfinished(t.Context()); err != nil || !slices.Equal(keys, []job.Key{{Workspace: "default", ID: "a"}}) { // it is unclean
			t.Errorf("unfinished are %v, error %v", keys, err)
		}
	}
}

type cancels struct {
	*dynamodb.Client
	left  int      // how many more transactions to cancel
	codes []string // reasons for the cancellation
}

func (c *cancels) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if c.left--; c.left < 0 {
		return c.Client.TransactWriteItems(ctx, in, opts...)
	}
	var reasons []types.CancellationReason
	for _, code := range c.codes {
		reasons = append(reasons, types.CancellationReason{Code: &code})
	}
	return nil, &types.TransactionCanceledException{CancellationReasons: reasons}
}

func (c *cancels) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if c.left--; c.left < 0 {
		return c.Client.PutItem(ctx, in, opts...)
	}
	return nil, &types.TransactionConflictException{}
}

func TestWritesThatConflictAreRepeated(t *testing.T) {
	t.Parallel()
	client := &cancels{Client: dynamolocal.Client(t)}
	s := openJobs(t, client, reports)
	for name, tt := range map[string]struct {
		quota int
		times int
		codes []string
		kind  record.Code // 0 for no error
	}{
		"another transaction writes the job":         {100, 3, []string{"TransactionConflict", "None"}, 0},
		"another transaction writes the count":       {100, 3, []string{"None", "TransactionConflict"}, 0},
		"throttled":                                  {100, 2, []string{"ThrottlingError", "ProvisionedThroughputExceeded"}, 0},
		"the quota is reached but the job may exist": {100, 1, []string{"TransactionConflict", "ConditionalCheckFailed"}, 0},
		"every attempt conflicts":                    {100, 100, []string{"None", "TransactionConflict"}, record.Unavailable},
		"a put and a transaction":                    {0, 3, nil, 0},
		"every put conflicts":                        {0, 100, nil, record.Unavailable},
	} {
		client.left, client.codes = tt.times, tt.codes
		_, put, err := s.Put(t.Context(), report(strings.ReplaceAll(name, " ", "-"), tt.quota, time.Now()))
		if put != (tt.kind == 0) || record.CodeOf(err) != tt.kind {
			t.Errorf("%s: put %v, error %v", name, put, err)
		}
	}
	client.left, client.codes = 1, []string{"None", "ConditionalCheckFailed"}
	_, put, err := s.Put(t.Context(), report("full", 100, time.Now()))
	if full, ok := errors.AsType[*job.QuotaError](err); put || !ok || full.Quota != 100 {
		t.Errorf("the quota is reached: put %v, error %v", put, err)
	}
	client.left, client.codes = 1, []string{"ValidationError", "None"}
	if _, _, err := s.Put(t.Context(), report("a", 1, time.Now())); err == nil || client.left != 0 {
		t.Errorf("an item that is not valid: error %v", err)
	}
}

func TestItemsOfJobsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	s := openJobs(t, client, reports)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const at = "2026-01-02T12:00:00.000Z"
	j := report("ada", 1, noon)
	j.Details = json.RawMessage(`{"events":5}`)
	wants := func(want attributeValues) {
		t.Helper()
		j = putJob(t, s, j)
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.table, ConsistentRead: aws.Bool(true), Key: jobKey("default", "ada")})
		if err != nil {
			t.Fatal(err)
		}
		want["workspace"], want["id"], want["position"], want["revision"] = text("default"), text("ada"), text(at+"#ada"), number(j.Revision-1)
		if !reflect.DeepEqual(out.Item, want) {
			t.Errorf("got %v\nwant %v", readable(out.Item), readable(want))
		}
	}
	head := `{"workspace":"default","id":"ada","status":`
	wants(attributeValues{"status": text("queued"), "lane": text("fast"), "job": text(head + `"queued","created_at":"` + at + `","until":"` + at + `","quota":1,"revision":1,"details":{"events":5}}`)})

	j.Status, j.StartedAt, j.Run, j.Tries, j.Checkpoint = job.Running, &j.CreatedAt, "r", 1, json.RawMessage(`{"after":"x"}`)
	wants(attributeValues{"status": text("running"), "checkpoint": text(`{"after":"x"}`), "job": text(head + `"running","created_at":"` + at + `","started_at":"` + at + `","until":"` + at + `","quota":1,"revision":2,"run":"r","tries":1,"details":{"events":5}}`)})

	// A job that expired before it ended would count toward the quota forever.
	j = reports.Finish(j, job.Succeeded, noon.Add(time.Hour))
	wants(attributeValues{
		"status": text("succeeded"), "expires_at": number(noon.Add(time.Hour).AddDate(0, 0, 30).Unix()),
		"job": text(head + `"succeeded","created_at":"` + at + `","started_at":"` + at + `","finished_at":"2026-01-02T13:00:00.000Z","expires_at":"2026-02-01T13:00:00.000Z","until":"` + at + `","quota":1,"revision":3,"details":{"events":5}}`),
	})
}

func readable(item attributeValues) map[string]any {
	values := make(map[string]any)
	for name, value := range item {
		switch v := value.(type) {
		case *types.AttributeValueMemberS:
			values[name] = v.Value
		case *types.AttributeValueMemberN:
			values[name] = v.Value
		}
	}
	return values
}

type lists struct {
	*dynamodb.Client
	bytes int // total size of the items that queries returned
}

func (l *lists) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := l.Client.Query(ctx, in, opts...)
	if err == nil {
		for _, item := range out.Items {
			l.bytes += itemSize(item)
		}
	}
	return out, err
}

func TestListsDoNotReadCheckpoints(t *testing.T) {
	t.Parallel()
	client := &lists{Client: dynamolocal.Client(t)}
	s := openJobs(t, client, reports)
	j := report("a", 1, time.Now())
	j.Status, j.Checkpoint = job.Running, json.RawMessage(`"`+strings.Repeat("x", 5000)+`"`)
	putJob(t, s, j)
	if page, err := s.List(t.Context(), "default", "", 10); err != nil || len(page.Records) != 1 {
		t.Fatalf("%+v, error %v", page.Records, err)
	}
	if client.bytes == 0 || client.bytes > 1000 {
		t.Errorf("the list of one job has read %d bytes", client.bytes)
	}
}

func TestOldestUnfinished(t *testing.T) {
	t.Parallel()
	s := openJobs(t, dynamolocal.Client(t), reports)
	created := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	want := func(after string, at time.Time, ok bool) {
		t.Helper()
		got, gotOK, err := s.OldestUnfinished(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", after, err)
		}
		if gotOK != ok || ok && got != record.TimeOf(at) {
			t.Errorf("%s: got %v, %v, want %v, %v", after, got, gotOK, at, ok)
		}
	}
	want("no jobs", time.Time{}, false)

	// The oldest job is neither the first by id nor the first to be put, and there are two
	// workspaces.
	var oldest job.Job
	for _, tt := range []struct {
		workspace, id string
		minute        int
	}{{"a", "1", 7}, {"b", "2", 5}, {"b", "3", 2}} {
		j := report(tt.id, 10, created.Add(time.Duration(tt.minute)*time.Minute))
		j.Workspace = tt.workspace
		oldest = putJob(t, s, j)
	}
	want("three jobs are queued", created.Add(2*time.Minute), true)

	oldest.Status = job.Running
	putJob(t, s, oldest)
	want("the oldest job runs", created.Add(2*time.Minute), true)
	if _, err := reports.Cancel(t.Context(), s, "b", "3", created.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want("the oldest job is cancelled", created.Add(5*time.Minute), true)
	for _, key := range [][2]string{{"b", "2"}, {"a", "1"}} {
		if _, err := reports.Cancel(t.Context(), s, key[0], key[1], created.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	want("the others are cancelled", time.Time{}, false)
}
