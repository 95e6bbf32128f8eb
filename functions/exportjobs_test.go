package functions_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/exportjob"
	"sluice/pkg/job"
)

// Five instances receive 50 concurrent requests for new jobs, and create only as many jobs as
// the quota allows. After these jobs are cancelled, the instances can create as many again.
func TestExportJobsOfAWorkspaceAreBounded(t *testing.T) {
	t.Parallel()
	quota := int64(exportjob.Kind.Quota)
	x := deployExports(t, dynamolocal.Shared(t), 1)
	creators, cancel := x.start(t, "create-export-job", 5), x.start(t, "cancel-export-job", 1)[0]
	for round := range 2 {
		var created, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				// Each request of a round has its own address, so none reaches a rate limit.
				ev := lambdatest.Event("POST", "/create_export_job", fmt.Sprint("192.0.2.", i), fmt.Sprintf(`{"id":"%d-%d","resource":"event","format":"csv"}`, round, i))
				resp, err := creators[i%len(creators)].Invoke(t.Context(), ev)
				switch {
				case err == nil && resp.StatusCode == http.StatusCreated:
					created.Add(1)
				case err == nil && resp.StatusCode == http.StatusConflict && strings.Contains(resp.Body, `"too_many_export_jobs"`):
					refused.Add(1)
				default:
					t.Errorf("error %v, response %+v", err, resp)
				}
			})
		}
		wg.Wait()
		if created.Load() != quota || refused.Load() != 50-quota {
			t.Fatalf("round %d: %d were created, %d refused", round, created.Load(), refused.Load())
		}
		keys, err := x.jobs.Unfinished(t.Context())
		keys = slices.DeleteFunc(keys, func(k job.Key) bool { return !strings.HasPrefix(k.ID, fmt.Sprint(round, "-")) }) // no worker cleans up after the others
		if err != nil || len(keys) != int(quota) {
			t.Fatalf("the unfinished jobs are %v, error %v", keys, err)
		}
		for i, key := range keys {
			invoke(t, cancel, lambdatest.Event("POST", "/cancel_export_job", fmt.Sprint("192.0.2.", i), `{"id":"`+key.ID+`"}`), http.StatusOK)
		}
	}
}

// Lambda retries a killed run. When all of a job's allowed runs have been killed, the job
// fails and no longer counts toward the quota.
func TestAnExportWhoseRunsAreAllKilledFreesItsPlace(t *testing.T) {
	t.Parallel()
	x := deployExports(t, dynamolocal.Shared(t), 1)
	x.env = append(x.env, "EXPORT_JOBS_PER_WORKSPACE=1")
	create := x.start(t, "create-export-job", 1)[0]
	request := func(id string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("POST", "/create_export_job", "192.0.2.1", `{"id":"`+id+`","resource":"event","format":"csv"}`)
	}
	invoke(t, create, request("a"), http.StatusCreated)
	ev := x.fast.next(t)
	for try := 1; ; try++ {
		invoke(t, create, request("b"), http.StatusConflict)
		if try == 6 {
			break
		}
		x.runUntil(t, ev, "a", func(j exportJob) bool { return j.Tries == try })
	}
	x.run(t, x.starter, ev, starterTimeout)
	if j := x.job(t, "a"); j.Status != job.Failed {
		t.Errorf("the job is %+v", j)
	}
	invoke(t, create, request("b"), http.StatusCreated)
}

// Each function exports everything, tries a completion and a part again, and removes a cancelled job.
func TestWhatExportFunctionsMayDo(t *testing.T) {
	t.Parallel()
	x := deployExports(t, dynamolocal.Shared(t), 1)
	cancel := x.start(t, "cancel-export-job", 1)[0]
	binaries := map[string]string{"export-starter": x.starter, "export-worker": x.worker}
	orders := []string{
		`"resource":"entity","format":"ndjson"`, `"resource":"entity","format":"csv","filters":{"type":"t"}`,
		`"resource":"event","format":"csv"`, `"resource":"event","format":"ndjson","filters":{"entity_id":"e"}`,
		`"resource":"event","format":"ndjson","filters":{"name":"n"}`,
	}
	const cancelled = 5
	x.index(t, "default", "", "name")
	x.env = append(x.env, "EXPORT_JOBS_PER_WORKSPACE=12")
	x.create = x.start(t, "create-export-job", 1)[0]
	ordered := make(map[string]any) // events by job id; all jobs are created up front, because each waits record.SyncLag before it runs
	for function := range binaries {
		for i, order := range append(orders, orders[0]) {
			id := fmt.Sprint(function, "-", i)
			ordered[id] = x.order(t, id, order)
		}
	}
	for function := range binaries {
		id := fmt.Sprint(function, "-", cancelled)
		invoke(t, cancel, lambdatest.Event("POST", "/cancel_export_job", "192.0.2.1", `{"id":"`+id+`"}`), http.StatusOK)
	}
	for function, binary := range binaries {
		proxy, bucket := dynamoproxy.Start(t, dynamolocal.Endpoint(t)), startS3Proxy(t, x.bucket)
		instance := lambdatest.Start(t, binary, append(slices.Clone(x.env), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL, "AWS_ENDPOINT_URL_S3="+bucket.url)...)
		run := func(i int, want job.Status) {
			t.Helper()
			id := fmt.Sprint(function, "-", i)
			if _, err := instance.Handle(t.Context(), ordered[id], time.Minute); err != nil && want != job.Running {
				t.Fatal(err)
			}
			if j := x.job(t, id); j.Status != want {
				t.Errorf("%s: %+v, want it %s", id, j, want)
			}
		}
		bucket.fail(func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") })
		run(0, job.Succeeded)
		bucket.fail(func(r *http.Request) bool { return r.URL.Query().Has("partNumber") })
		run(1, job.Running)
		run(1, job.Succeeded)
		run(2, job.Succeeded)
		run(3, job.Succeeded)
		run(4, job.Succeeded)
		run(cancelled, job.Cancelled)
		checkGrants(t, function, proxy, bucket)
	}
}
