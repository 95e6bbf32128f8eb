package dynamostore_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/erasurejob"
	"sluice/pkg/erasurejob/dynamostore"
	"sluice/pkg/erasurejob/storetest"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

func open(t *testing.T) (s *dynamostore.Store, table string) {
	t.Helper()
	table = dynamolocal.Table(t, "ErasureJobsTable")
	s, err := dynamostore.New(dynamolocal.Client(t), table)
	if err != nil {
		t.Fatal(err)
	}
	return s, table
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		s, _ := open(t)
		return s
	})
}

func TestNewNeedsAClientAndATable(t *testing.T) {
	if _, err := dynamostore.New(nil, "t"); err == nil {
		t.Error("no error without a client")
	}
	if _, err := dynamostore.Open(&dynamodb.Client{}, func(string) string { return "" }); err == nil {
		t.Error("no error without a table")
	}
}

// A job expires 30 days after its end. An unfinished job has no expiry.
func TestItemsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	s, table := open(t)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	j := erasurejob.Job{ID: "ada", Workspace: "default", Status: erasurejob.Queued, CreatedAt: record.TimeOf(noon), Until: record.TimeOf(noon), Revision: 1}
	want := dynamorecord.Item{
		"workspace": dynamorecord.Text("default"), "id": dynamorecord.Text("ada"), "status": dynamorecord.Text("queued"), "revision": dynamorecord.Number(1),
	}
	check := func() {
		t.Helper()
		if replaced, err := s.Replace(t.Context(), j); !replaced || err != nil {
			t.Fatalf("%v, error %v", replaced, err)
		}
		out, err := dynamolocal.Client(t).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: dynamorecord.Item{"workspace": want["workspace"], "id": want["id"]}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := erasurejob.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if want["job"] = dynamorecord.Text(string(text)); !reflect.DeepEqual(out.Item, want) {
			t.Errorf("got %v\nwant %v", out.Item, want)
		}
	}
	check()
	j = j.Finish(erasurejob.Succeeded, noon.Add(time.Hour))
	j.Revision = 2
	want["status"], want["revision"] = dynamorecord.Text("succeeded"), dynamorecord.Number(2)
	want["expires_at"] = dynamorecord.Number(noon.Add(time.Hour).AddDate(0, 0, 30).Unix())
	check()
}
