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
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// With the permissions in template.yaml, the monitor can report the age of a job that no worker
// has taken.
func TestExportMonitorMeasuresTheOldestQueuedJob(t *testing.T) {
	t.Parallel()
	table := dynamolocal.Table(t, "ExportJobsTable")
	jobs, err := dynamo.NewJobs(dynamolocal.Client(t), exportjob.Kind, table)
	if err != nil {
		t.Fatal(err)
	}
	order := exportjob.Order{ID: "left", Resource: record.Event, Format: exportjob.NDJSON}
	if _, _, err := exportjob.Create(t.Context(), jobs, "default", order, exportjob.DefaultQuota, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	event, err := os.ReadFile("../events/export-monitor.json")
	if err != nil {
		t.Fatal(err)
	}
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	monitor := lambdatest.Start(t, lambdatest.Build(t, "export-monitor"),
		"AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL, "EXPORT_JOBS_TABLE="+table, "SERVICE_NAME=sluice-test")
	if _, err := monitor.Handle(t.Context(), json.RawMessage(event), lambdatest.Timeout); err != nil {
		t.Fatal(err)
	}
	monitor.Kill() // Kill also waits for the complete log
	var line struct{ OldestQueuedSeconds float64 }
	if err := json.Unmarshal([]byte(strings.TrimSpace(monitor.Log())), &line); err != nil {
		t.Fatalf("%v\n%s", err, monitor.Log())
	}
	if age := time.Duration(line.OldestQueuedSeconds * float64(time.Second)); age < 2*time.Hour || age > 3*time.Hour {
		t.Errorf("the oldest queued job is %v old, want 2 h", age)
	}
	checkGrants(t, "export-monitor", proxy)
}
