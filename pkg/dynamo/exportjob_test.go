package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openExportJobs(t *testing.T, client ExportJobsClient) *ExportJobs {
	t.Helper()
	s, err := NewExportJobs(client, dynamolocal.Table(t, "ExportJobsTable"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExportJobs(t *testing.T) {
	storetest.ExportJobs(t, func(t *testing.T) storetest.ExportJobStore { return openExportJobs(t, dynamolocal.Client(t)) })
}

// loses is an HTTP client that sends every request. For the first requests, it returns an error
// instead of the response, as if the response had been lost.
type loses struct {
	next aws.HTTPClient
	left atomic.Int64 // number of responses that are still to be lost
}

func (c *loses) Do(r *http.Request) (*http.Response, error) {
	response, err := c.next.Do(r)
	if err != nil || c.left.Add(-1) < 0 {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

// The SDK repeats a call whose response was lost. The repeated call must not apply the
// change again.
func TestChangesAreAppliedOnceIfResponsesAreLost(t *testing.T) {
	t.Parallel()
	network := &loses{}
	options := dynamolocal.Client(t).Options()
	network.next, options.HTTPClient = options.HTTPClient, network
	s := openExportJobs(t, dynamodb.New(options))
	network.left.Store(1)
	j, created, err := exportjob.Create(t.Context(), s, exportjob.Job{ID: "a", Workspace: "default", Resource: record.Event, Format: exportjob.CSV}, 1, time.Now())
	if !created || err != nil {
		t.Fatalf("created %v, error %v", created, err)
	}
	j.Revision, j.Progress.Run = 2, "run"
	network.left.Store(1)
	if stored, replaced, err := s.Replace(t.Context(), j); !replaced || err != nil || stored.Progress.Run != "run" {
		t.Errorf("replaced %v, error %v, stored %+v", replaced, err, stored)
	}
	network.left.Store(1)
	if j, err = exportjob.Cancel(t.Context(), s, "default", "a", time.Now()); err != nil || j.Status != exportjob.Cancelled || j.Revision != 3 {
		t.Errorf("cancelled %+v, error %v", j, err)
	}
	if keys, err := s.Unfinished(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("unfinished are %v, error %v", keys, err)
	}
}

// cancels is a client that cancels the first transactions. The reasons of each cancellation have
// the given codes.
type cancels struct {
	*dynamodb.Client
	left  int // number of transactions that are still to be cancelled
	codes []string
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

func TestTransactionsThatConflictAreRepeated(t *testing.T) {
	t.Parallel()
	client := &cancels{Client: dynamolocal.Client(t)}
	s := openExportJobs(t, client)
	for name, tt := range map[string]struct {
		times int
		codes []string
		kind  record.Kind // kind of the error; 0 for no error
	}{
		"another transaction writes the job":         {3, []string{"TransactionConflict", "None"}, 0},
		"another transaction writes the count":       {3, []string{"None", "TransactionConflict"}, 0},
		"throttled":                                  {2, []string{"ThrottlingError", "ProvisionedThroughputExceeded"}, 0},
		"the quota is reached but the job may exist": {1, []string{"TransactionConflict", "ConditionalCheckFailed"}, 0},
		"the quota is reached":                       {1, []string{"None", "ConditionalCheckFailed"}, record.TooMany},
		"every attempt conflicts":                    {100, []string{"None", "TransactionConflict"}, record.Unavailable},
	} {
		client.left, client.codes = tt.times, tt.codes
		j := exportjob.Job{ID: strings.ReplaceAll(name, " ", "-"), Workspace: "default", Resource: record.Event, Format: exportjob.CSV}
		_, created, err := exportjob.Create(t.Context(), s, j, 100, time.Now())
		if created != (tt.kind == 0) || record.KindOf(err) != tt.kind {
			t.Errorf("%s: created %v, error %v", name, created, err)
		}
	}
	client.left, client.codes = 1, []string{"ValidationError", "None"}
	if _, _, err := s.Create(t.Context(), exportjob.Job{ID: "a", Workspace: "default"}, 100); err == nil || client.left != 0 {
		t.Errorf("an item that is not valid: error %v", err)
	}
}

// If an unfinished job expired, it would count toward the quota forever.
func TestOnlyJobsThatHaveEndedExpire(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "ExportJobsTable")
	s, err := NewExportJobs(client, table)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	j, _, err := exportjob.Create(t.Context(), s, exportjob.Job{ID: "a", Workspace: "default", Resource: record.Event, Format: exportjob.CSV}, 1, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []exportjob.Status{exportjob.Queued, exportjob.Running, exportjob.Succeeded} {
		if j.Status = status; status != exportjob.Queued {
			j.Revision++
			if _, replaced, err := s.Replace(t.Context(), j); !replaced || err != nil {
				t.Fatalf("replaced %v, error %v", replaced, err)
			}
		}
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
			"workspace": &types.AttributeValueMemberS{Value: "default"}, "id": &types.AttributeValueMemberS{Value: "a"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var want types.AttributeValue
		if status.Final() {
			want = &types.AttributeValueMemberN{Value: strconv.FormatInt(j.CreatedAt.Time().AddDate(0, 0, exportjob.HistoryDays).Unix(), 10)}
		}
		if got := out.Item["expires_at"]; !reflect.DeepEqual(got, want) {
			t.Errorf("a job that is %s expires at %v, want %v", status, got, want)
		}
	}
}

// lists is a client that counts the bytes of the items that queries return.
type lists struct {
	*dynamodb.Client
	bytes int
}

func (l *lists) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := l.Client.Query(ctx, in, opts...)
	if err == nil {
		for _, item := range out.Items {
			l.bytes += len(fmt.Sprint(readItem(item).optionalText("job"), readItem(item).optionalText("progress")))
		}
	}
	return out, err
}

func TestListsDoNotReadProgress(t *testing.T) {
	t.Parallel()
	client := &lists{Client: dynamolocal.Client(t)}
	s := openExportJobs(t, client)
	j := exportjob.Job{ID: "a", Workspace: "default", Resource: record.Event, Format: exportjob.CSV, Status: exportjob.Running, CreatedAt: record.TimeOf(time.Now()), Revision: 1}
	for range 1000 {
		j.Progress.Parts = append(j.Progress.Parts, "etag")
	}
	if _, created, err := s.Create(t.Context(), j, 1); !created || err != nil {
		t.Fatalf("created %v, error %v", created, err)
	}
	if page, err := s.List(t.Context(), "default", exportjob.Query{Limit: 10}); err != nil || len(page.Records) != 1 {
		t.Fatalf("%+v, error %v", page, err)
	}
	if client.bytes == 0 || client.bytes > 1000 {
		t.Errorf("the list of one job has read %d bytes", client.bytes)
	}
}
