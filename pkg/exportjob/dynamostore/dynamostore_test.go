package dynamostore_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/exportjob/storetest"
)

func open(t *testing.T, client dynamostore.Client) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(client, dynamolocal.Table(t, "ExportJobsTable"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, dynamolocal.Client(t)) })
}

// loses sends requests on, but fails those that are counted as if their answer
// had been lost on the way.
type loses struct {
	next aws.HTTPClient
	left atomic.Int64
}

func (c *loses) Do(r *http.Request) (*http.Response, error) {
	response, err := c.next.Do(r)
	if err != nil || c.left.Add(-1) < 0 {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

// The SDK repeats a call whose answer was lost, and the repeat finds what the
// first one did.
func TestChangesWhoseAnswersWereLostAreMadeOnce(t *testing.T) {
	t.Parallel()
	network := &loses{}
	options := dynamolocal.Client(t).Options()
	network.next, options.HTTPClient = options.HTTPClient, network
	s := open(t, dynamodb.New(options))
	j, created, err := exportjob.Create(t.Context(), s, exportjob.Job{ID: "a", Workspace: "default", Resource: exportjob.Event, Format: exportjob.CSV}, time.Now())
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
}

func TestNewNeedsAClientAndATable(t *testing.T) {
	t.Parallel()
	if _, err := dynamostore.New(nil, "jobs"); err == nil {
		t.Error("no error without a client")
	}
	if _, err := dynamostore.New(&dynamodb.Client{}, ""); err == nil {
		t.Error("no error without a table")
	}
}
