package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

func post(t *testing.T, route, body string) events.APIGatewayV2HTTPRequest {
	t.Helper()
	ev := sample(t, route)
	ev.Body = body
	return ev
}

func TestInvalidExportJobs(t *testing.T) {
	a := newAPI(t)
	for body, says := range map[string]string{
		`{}`:                                   "resource must be entity or event; format must be ndjson or csv",
		`{"resource":"event","format":"xml"}`:  "format must be ndjson or csv",
		`{"resource":"events","format":"csv"}`: "resource must be entity or event",
		`{"id":"a b","resource":"event","format":"csv"}`:                                                                "id must be",
		`{"resource":"event","format":"csv","csv_formulas":"run"}`:                                                      "csv_formulas must be neutralize or keep",
		`{"resource":"event","format":"csv","filters":[]}`:                                                              "filters must be a JSON object",
		`{"resource":"event","format":"csv","filters":{"names":"n"}}`:                                                   "filters/names is not a field here",
		`{"resource":"event","format":"csv","filters":{"from":"now"}}`:                                                  "from is not an RFC 3339",
		`{"resource":"event","format":"csv","filters":{"type":"t"}}`:                                                    "filters for events may have only entity_id, name, from and to",
		`{"resource":"event","format":"csv","filters":{"entity_id":"a b"}}`:                                             "filters/entity_id must be",
		`{"resource":"event","format":"csv","filters":{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}}`:     "filters/from must not be later than to",
		`{"resource":"entity","format":"csv","filters":{"entity_id":"a"}}`:                                              "filters for entities may have only type",
		`{"resource":"entity","format":"csv","filters":{"to":"2026-01-01T00:00:00Z"}}`:                                  "filters for entities may have only type",
		`{"resource":"entity","format":"csv","filters":{"type":"` + strings.Repeat("t", record.MaxNameLength+1) + `"}}`: "filters/type must be",
	} {
		resp := a.invoke(t, "create-export-job", post(t, "create-export-job", body))
		if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(resp.Body, says) {
			t.Errorf("%s: %d %s, want %q", body, resp.StatusCode, resp.Body, says)
		}
	}
	resp := a.invoke(t, "cancel-export-job", post(t, "cancel-export-job", `{}`))
	if resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("cancel without an id: %d %s", resp.StatusCode, resp.Body)
	}
}

func TestARepeatOfAnExportJobMustBeTheSame(t *testing.T) {
	a := newAPI(t)
	const first = `{"id":"a","resource":"event","format":"csv","filters":{"from":"2026-01-01T00:00:00Z"}}`
	for _, step := range []struct {
		body   string
		status int
	}{
		{first, 201},
		{first, 200},
		{`{"csv_formulas":"neutralize","filters":{"to":null,"from":"2026-01-01T01:00:00+01:00"},"format":"csv","resource":"event","id":"a"}`, 200},
		{strings.Replace(first, "csv", "ndjson", 1), 409},
		{strings.Replace(first, "2026-01-01", "2026-01-02", 1), 409},
		{`{"id":"a","resource":"event","format":"csv"}`, 409},
		{`{"id":"a","resource":"entity","format":"csv"}`, 409},
		{strings.Replace(first, `"format"`, `"csv_formulas":"keep","format"`, 1), 409},
		{`{"resource":"event","format":"csv","filters":{"entity_id":"ada","name":"signed_up","to":"2026-01-01T00:00:00Z"}}`, 201},
		{`{"resource":"entity","format":"ndjson","filters":{"type":"person"}}`, 201},
	} {
		if resp := a.invoke(t, "create-export-job", post(t, "create-export-job", step.body)); resp.StatusCode != step.status {
			t.Errorf("%s: %d %s, want %d", step.body, resp.StatusCode, resp.Body, step.status)
		}
	}
}

func TestTooManyExportJobs(t *testing.T) {
	a := newAPI(t)
	create := func(id string, status int) string {
		t.Helper()
		resp := a.invoke(t, "create-export-job", post(t, "create-export-job", `{"id":"`+id+`","resource":"event","format":"csv"}`))
		if resp.StatusCode != status {
			t.Fatalf("%s: %d %s, want %d", id, resp.StatusCode, resp.Body, status)
		}
		return resp.Body
	}
	for i := range exportjob.Kind.Quota {
		create(fmt.Sprint(i), 201)
	}
	if body := create("more", 409); !strings.Contains(body, `"code":"too_many_export_jobs"`) || !strings.Contains(body, "has 10 export jobs") {
		t.Error(body)
	}
	create("0", 200)
	a.invoke(t, "cancel-export-job", post(t, "cancel-export-job", `{"id":"0"}`))
	create("more", 201)
	create("0", 200)
	create("yet-more", 409)
}

func TestStatesOfExportJobs(t *testing.T) {
	a := newAPI(t)
	at, later := record.TimeOf(now()), record.TimeOf(now().Add(time.Hour))
	reason := "The file was too large."
	finished := func(status job.Status) job.Job { return exportjob.Kind.Finish(job.Job{StartedAt: &at}, status, now()) }
	failed := finished(job.Failed)
	failed.Error = &reason
	const order, done = `{"resource":"event","format":"csv"`, `,"records_written":7,"records_expected":7,"size_bytes":7,"file_expires_at":`
	for name, tt := range map[string]struct {
		job     job.Job
		details string
		want    []string
		cancel  int
	}{
		"running":   {job.Job{Status: job.Running, StartedAt: &at}, order + `,"records_expected":7}`, []string{`"status":"running"`, `"records_expected":7`, `"download_url":null`}, 200},
		"succeeded": {finished(job.Succeeded), order + done + `"` + later.String() + `"}`, []string{`"download_url":"https://api.example.com/file/default/event-succeeded.csv.gz"`, `"size_bytes":7`, `"error":null`}, 409},
		"expired":   {finished(job.Succeeded), order + done + `"` + at.String() + `"}`, []string{`"status":"succeeded"`, `"download_url":null`, `"error":"The file expired at 2026-01-02T15:04:05.678Z`}, 409},
		"failed":    {failed, order + `}`, []string{`"error":"The file was too large."`, `"download_url":null`}, 409},
	} {
		j := tt.job
		j.ID, j.Workspace, j.CreatedAt, j.Revision, j.Details = name, "default", at, 1, []byte(tt.details)
		if _, put, err := a.stores.ExportJobs.Put(t.Context(), j); !put || err != nil {
			t.Fatalf("put %v, error %v", put, err)
		}
		ev := sample(t, "get-export-job")
		ev.RawPath = "/export_job/" + name
		resp := a.invoke(t, "get-export-job", ev)
		for _, want := range tt.want {
			if resp.StatusCode != 200 || !strings.Contains(resp.Body, want) {
				t.Errorf("%s: %d %s, want %s", name, resp.StatusCode, resp.Body, want)
			}
		}
		if resp := a.invoke(t, "cancel-export-job", post(t, "cancel-export-job", `{"id":"`+name+`"}`)); resp.StatusCode != tt.cancel {
			t.Errorf("cancel of %s: %d %s", name, resp.StatusCode, resp.Body)
		}
	}
	checkDeletions(t, a)
	ev := sample(t, "get-export-job")
	ev.RawPath = "/export_job/a%20b"
	if resp := a.invoke(t, "get-export-job", ev); resp.StatusCode != 400 {
		t.Errorf("an invalid id: %d %s", resp.StatusCode, resp.Body)
	}
}

// checkDeletions deletes the files of the jobs that TestStatesOfExportJobs has created.
func checkDeletions(t *testing.T, a service) {
	t.Helper()
	const deleted = `"file_deleted_at":"2026-01-02T15:04:05.678Z","download_url":null,"error":null`
	for _, step := range []struct {
		name, want string
		status     int
	}{
		{"succeeded", deleted, 200},
		{"succeeded", deleted, 200},
		{"expired", deleted, 200},
		{"failed", `"file_deleted_at":null,"download_url":null,"error":"The file was too large."`, 200},
		{"running", `"file_deleted_at":null`, 200}, // cancelled meanwhile
		{"queued", `"detail":"the export job is queued; cancel it, or wait until it has ended"`, 409},
		{"nobody", `"code":"not_found"`, 404},
	} {
		if step.name == "queued" {
			a.invoke(t, "create-export-job", post(t, "create-export-job", `{"id":"queued","resource":"event","format":"csv"}`))
		}
		resp := a.invoke(t, "delete-export-job", post(t, "delete-export-job", `{"id":"`+step.name+`"}`))
		if resp.StatusCode != step.status || !strings.Contains(resp.Body, step.want) {
			t.Errorf("deletion of %s: %d %s, want %d %s", step.name, resp.StatusCode, resp.Body, step.status, step.want)
		}
	}
	ev := sample(t, "get-export-job")
	ev.RawPath = "/export_job/succeeded"
	if resp := a.invoke(t, "get-export-job", ev); !strings.Contains(resp.Body, deleted) {
		t.Errorf("after the deletion: %s", resp.Body)
	}
}
