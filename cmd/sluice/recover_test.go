package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
)

// The test follows "Bring back some records" in docs/recover.md. A second server uses the restored
// table. That table's records are imported into the first server, where they were overwritten or
// deleted. The restored table has no TTL, because DynamoDB restores tables without it.
func TestRecordsComeBackFromARestoredTable(t *testing.T) {
	t.Parallel()
	onTable := func(entities string) *server {
		env := []string{"DATA_DIR=" + t.TempDir(), "ENTITIES_TABLE=" + entities}
		for variable, table := range map[string]string{"COUNTERS_TABLE": "CountersTable", "EXPORT_JOBS_TABLE": "ExportJobsTable"} {
			env = append(env, variable+"="+dynamolocal.Table(t, table))
		}
		return startIn(t, env, "--dynamodb", dynamolocal.Endpoint(t))
	}
	// At the restore time, both tables have the same records.
	restored, current := dynamolocal.Table(t, "EntitiesTable"), dynamolocal.Table(t, "EntitiesTable")
	now := onTable(current)
	for _, s := range []*server{onTable(restored), now} {
		for _, entity := range []string{`{"id":"ada","attributes":{"plan":"gold"}}`, `{"id":"bob"}`} {
			s.client(t).want(t, http.StatusCreated, "POST", "/create_entity", entity)
		}
	}
	_, err := dynamolocal.Client(t).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &restored, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires_at"), Enabled: aws.Bool(false)},
	})
	if err != nil {
		t.Fatal(err)
	}
	now.client(t).want(t, http.StatusOK, "POST", "/update_entity", `{"id":"ada","attributes":{"plan":"lost"}}`)
	now.client(t).want(t, http.StatusOK, "POST", "/delete_entity", `{"id":"bob"}`)

	file := filepath.Join(t.TempDir(), "entities.ndjson")
	for _, cmd := range [][]string{{onTable(restored).url, "export", "entities", "-o", file}, {now.url, "import", "entities", file}} {
		wantRun(t, sluiceCommand(t, cmd[0], cmd[1:]...), 0, "", "")
	}
	for target, want := range map[string]string{"/entity/ada": `"plan":"gold"`, "/entity/bob": `"id":"bob"`} {
		if r := now.client(t).want(t, http.StatusOK, "GET", target, ""); !strings.Contains(r.body, want) {
			t.Errorf("%s is %s, want %s", target, r.body, want)
		}
	}
}
