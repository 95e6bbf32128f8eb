package functions_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// With the permissions in template.yaml, the monitor reports the oldest job of any kind. It
// therefore notices a killed erasure that the stream no longer delivers. It also gives the service
// an id.
func TestTheJobMonitorNoticesAnErasureThatStopped(t *testing.T) {
	t.Parallel()
	exports, erasures, entities := dynamolocal.Table(t, "ExportJobsTable"), dynamolocal.Table(t, "ErasureJobsTable"), dynamolocal.Table(t, "EntitiesTable")
	create := func(kind job.Kind, table string, age time.Duration, status job.Status) {
		t.Helper()
		jobs, err := dynamo.NewJobs(dynamolocal.Client(t), kind, table)
		if err != nil {
			t.Fatal(err)
		}
		created := record.TimeOf(time.Now().Add(-age))
		j := job.Job{Workspace: "default", ID: "left", Status: status, CreatedAt: created, Until: created, Revision: 1}
		if _, put, err := jobs.Put(t.Context(), j); !put || err != nil {
			t.Fatal(put, err)
		}
	}
	create(exportjob.Kind, exports, time.Minute, job.Queued)
	create(erasurejob.Kind, erasures, 2*time.Hour, job.Running)
	event, err := os.ReadFile("../events/job-monitor.json")
	if err != nil {
		t.Fatal(err)
	}
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	monitor := lambdatest.Start(t, lambdatest.Build(t, "job-monitor"),
		"AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL, "ENTITIES_TABLE="+entities, "EXPORT_JOBS_TABLE="+exports, "ERASURE_JOBS_TABLE="+erasures, "SERVICE_NAME=sluice-test")
	if _, err := monitor.Handle(t.Context(), json.RawMessage(event), lambdatest.Timeout); err != nil {
		t.Fatal(err)
	}
	service, err := dynamo.NewService(dynamolocal.Client(t), entities)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := service.ID(t.Context()); id == "" || err != nil {
		t.Errorf("the service has the id %q, error %v", id, err)
	}
	monitor.Kill() // Kill also waits for the complete log
	var line struct {
		OldestUnfinishedSeconds float64
		Exports                 float64 `json:"export_seconds"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(monitor.Log())), &line); err != nil {
		t.Fatalf("%v\n%s", err, monitor.Log())
	}
	hour := time.Hour.Seconds()
	if line.OldestUnfinishedSeconds < 2*hour || line.OldestUnfinishedSeconds > 3*hour || line.Exports < 60 || line.Exports > hour {
		t.Errorf("the ages are %+v, want 2 h and 60 s", line)
	}
	checkGrants(t, "job-monitor", proxy, nil)
}
