package dynamo

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/erasurejob"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openErasureJobs(t *testing.T) (s *ErasureJobs, table string) {
	t.Helper()
	table = dynamolocal.Table(t, "ErasureJobsTable")
	s, err := NewErasureJobs(dynamolocal.Client(t), table)
	if err != nil {
		t.Fatal(err)
	}
	return s, table
}

func TestErasureJobs(t *testing.T) {
	storetest.ErasureJobs(t, func(t *testing.T) storetest.ErasureJobStore {
		s, _ := openErasureJobs(t)
		return s
	})
}

// A job expires 30 days after its end. An unfinished job has no expiry.
func TestItemsOfErasureJobsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	s, table := openErasureJobs(t)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	j := erasurejob.Job{ID: "ada", Workspace: "default", Status: erasurejob.Queued, CreatedAt: record.TimeOf(noon), Until: record.TimeOf(noon), Revision: 1}
	want := attributeValues{
		"workspace": text("default"), "id": text("ada"), "status": text("queued"), "revision": number(1),
	}
	check := func() {
		t.Helper()
		if replaced, err := s.Replace(t.Context(), j); !replaced || err != nil {
			t.Fatalf("%v, error %v", replaced, err)
		}
		out, err := dynamolocal.Client(t).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: attributeValues{"workspace": want["workspace"], "id": want["id"]}})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := erasurejob.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if want["job"] = text(string(stored)); !reflect.DeepEqual(out.Item, want) {
			t.Errorf("got %v\nwant %v", out.Item, want)
		}
	}
	check()
	j = j.Finish(erasurejob.Succeeded, noon.Add(time.Hour))
	j.Revision = 2
	want["status"], want["revision"] = text("succeeded"), number(2)
	want["expires_at"] = number(noon.Add(time.Hour).AddDate(0, 0, 30).Unix())
	check()
}
