package functions_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice"
	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/api"
	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// erasedEvents returns the environment variable ERASURE_EVENTS, or 1,000 if it is not set.
func erasedEvents(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("ERASURE_EVENTS"), "1000"))
	if err != nil || n < 1000 {
		t.Fatalf("ERASURE_EVENTS=%q, want 1000 or more", os.Getenv("ERASURE_EVENTS"))
	}
	return n
}

// items returns all items of a table except the one with the service's id.
func items(t *testing.T, table string) (all []map[string]types.AttributeValue) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(dynamolocal.Client(t), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.DeleteFunc(page.Items, func(item map[string]types.AttributeValue) bool {
			return text(item, "workspace") == dynamo.ServicePartition
		})...)
	}
	return all
}

// text returns a string or number attribute of an item, or "" if it has another type.
func text(item map[string]types.AttributeValue, name string) string {
	switch v := item[name].(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

func wantExpiry(t *testing.T, item map[string]types.AttributeValue, after time.Time) {
	t.Helper()
	if want := strconv.FormatInt(after.AddDate(0, 0, 30).Unix(), 10); text(item, "expires_at") != want {
		t.Errorf("%v expires at %s, want %s", item, text(item, "expires_at"), want)
	}
}

// The request is killed before it stores the tombstone, and the worker during the erasure; then the
// worker runs again. After that, the tables contain only the tombstone and the job.
func TestAnErasureThatIsKilledCompletes(t *testing.T) {
	t.Parallel()
	const id = "ada-4711"
	n := erasedEvents(t)
	engine := dynamolocal.Shared(t)
	d := deploy(t, engine.Endpoint)
	table := engine.Table(t, "ErasureJobsTable")
	d.env = append(d.env, "ERASURE_JOBS_TABLE="+table)
	jobs, err := dynamo.NewJobs(engine.Client(), erasurejob.Kind, table)
	if err != nil {
		t.Fatal(err)
	}
	queue := openStream(t, engine, table, "erasure-worker")
	invoke(t, d.start(t, "create-entity", 1)[0], lambdatest.Event("POST", "/create_entity", "192.0.2.1", `{"id":"`+id+`","type":"person","attributes":{"name":"Ada"}}`), http.StatusCreated)
	nth := eventsOf(420)
	importEvents(t, engine.Client(), d.events, 1, n, func(i int) event.Event {
		e := nth(i)
		e.EntityID = id
		return e
	})
	d.killRequest(t, engine.Endpoint, id)
	if text(items(t, d.entities)[0], "erased_at") != "" {
		t.Error("the request has stored the tombstone")
	}
	ev := queue.next(t)

	proxy := dynamoproxy.Start(t, engine.Endpoint)
	binary, env := lambdatest.Build(t, "erasure-worker"), append(slices.Clone(d.env), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL)
	stored := func() api.ErasureJob {
		j, err := erasurejob.Get(t.Context(), jobs, "default", id, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	began := time.Now()
	killWorker(t, lambdatest.Start(t, binary, env...), ev, func() bool { return stored().EventsErased >= int64(n/4) })
	left := count(t, d.events)
	t.Logf("killed after %s with %d of %d events left; the job is %s with %d erased", time.Since(began).Round(time.Millisecond), left, n, stored().Status, stored().EventsErased)
	if left == 0 || left > n*3/4 {
		t.Fatalf("%d of %d events were left", left, n)
	}
	began = time.Now()
	if _, err := lambdatest.Start(t, binary, env...).Handle(t.Context(), ev, workerTimeout); err != nil { // Lambda retries the run
		t.Fatal(err)
	}
	j := stored()
	t.Logf("continued for %s: the job is %s with %d erased", time.Since(began).Round(time.Millisecond), j.Status, j.EventsErased)
	if j.Status != job.Succeeded || j.EventsErased > int64(n) || j.EventsErased < int64(n)-100 {
		t.Errorf("the job is %+v", j)
	}
	checkGrants(t, "erasure-worker", proxy, nil)
	wantErased(t, d, jobs, table, id)
}

// killRequest kills delete-entity when it wants to write the tombstone of an entity.
func (d deployment) killRequest(t *testing.T, endpoint, id string) {
	t.Helper()
	proxy := dynamoproxy.Start(t, endpoint)
	due := make(chan struct{}, 10)
	proxy.SetFault(func(c dynamoproxy.Call) dynamoproxy.Fault {
		if c != (dynamoproxy.Call{Operation: "UpdateItem", Table: d.entities}) {
			return dynamoproxy.Fault{}
		}
		due <- struct{}{}
		return dynamoproxy.Fault{Delay: time.Minute, Skip: true, Drop: true} // or until the client disconnects
	})
	instance := lambdatest.Start(t, lambdatest.Build(t, "delete-entity"), append(slices.Clone(d.env), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL)...)
	ended := make(chan error, 1)
	go func() {
		_, err := instance.Handle(t.Context(), lambdatest.Event("POST", "/delete_entity", "192.0.2.1", `{"id":"`+id+`","events":true}`), time.Minute)
		ended <- err
	}()
	<-due
	instance.Kill()
	if err := <-ended; !errors.Is(err, child.ErrExited) {
		t.Fatalf("killing the request: %v", err)
	}
}

// halfAPartition is half of the 1,000 write units per second that a partition supports.
const halfAPartition = 500

func TestConcurrentErasuresLeaveHalfOfAPartitionToNewEvents(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?s)EventSourceArn: !GetAtt ErasureJobsTable\.StreamArn.*?ParallelizationFactor: (\d+)`).FindSubmatch(sluice.Template)
	if m == nil {
		t.Fatal("the template has no stream of ErasureJobsTable")
	}
	if runs, err := strconv.Atoi(string(m[1])); err != nil || runs*erasurejob.MaxRate > halfAPartition {
		t.Errorf("%d runs erase %d events per second each, error %v", runs, erasurejob.MaxRate, err)
	}
}

// killWorker kills a worker as soon as due returns true.
func killWorker(t *testing.T, worker *lambdatest.Instance, ev any, due func() bool) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := worker.Handle(t.Context(), ev, workerTimeout)
		ended <- err
	}()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !due() {
		select {
		case err := <-ended:
			t.Fatalf("the worker ended (error %v) before it could be killed", err)
		case <-look.C:
		}
	}
	worker.Kill()
	if err := <-ended; !errors.Is(err, child.ErrExited) {
		t.Fatalf("killing the worker: %v", err)
	}
}

// wantErased checks that only the tombstone and the job are left.
func wantErased(t *testing.T, d deployment, jobs job.Store, table, id string) {
	t.Helper()
	tombstones, erasures := items(t, d.entities), items(t, table)
	if len(tombstones) != 1 || len(erasures) != 1 || len(items(t, d.events)) != 0 {
		t.Fatalf("the tables have the entities %v, the jobs %v and %d events", tombstones, erasures, len(items(t, d.events)))
	}
	var names []string
	for name := range tombstones[0] {
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "change created_at erased_at expires_at id revision shard token type workspace" || text(tombstones[0], "id") != id {
		t.Errorf("the tombstone of %s has %s", text(tombstones[0], "id"), got)
	}
	j, err := jobs.Get(t.Context(), "default", id)
	if err != nil || j.FinishedAt == nil || time.Since(j.FinishedAt.Time()) > time.Minute {
		t.Fatalf("the job is %+v, error %v", j, err)
	}
	if got, want := text(tombstones[0], "erased_at"), j.Until.String(); got != want {
		t.Errorf("the tombstone says erased_at %s, the job %s", got, want)
	}
	stamp, err := record.ParsePosition(text(tombstones[0], "change"))
	if err != nil {
		t.Fatal(err)
	}
	wantExpiry(t, tombstones[0], stamp.At.Time())
	wantExpiry(t, erasures[0], j.FinishedAt.Time())
	t.Logf("items that remain: tombstone %s, expires_at %s; job %s", text(tombstones[0], "change"), text(tombstones[0], "expires_at"), text(erasures[0], "job"))
	for _, table := range []string{d.counters, d.limits} {
		for _, item := range items(t, table) {
			if encoded, err := json.Marshal(item); err != nil || strings.Contains(string(encoded), id) {
				t.Errorf("%s has %s, error %v", table, fmt.Sprint(item), err)
			}
		}
	}
}
