// Package functions_test runs the binaries of the functions, each in its own process, against
// DynamoDB Local.
package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/functions/internal/bootstrap"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/openapitest"
	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// deployment is a set of new tables, and the environment variables that name them.
type deployment struct {
	counters, limits, entities, events string
	env                                []string
}

func deploy(t *testing.T, endpoint string) deployment {
	t.Helper()
	return deployOn(t, dynamolocal.Shared(t), endpoint)
}

// deployOn creates tables on engine, which the functions reach at endpoint.
func deployOn(t *testing.T, engine *dynamolocal.Engine, endpoint string) deployment {
	t.Helper()
	d := deployment{
		counters: engine.Table(t, "CountersTable"), limits: engine.Table(t, "LimitsTable"),
		entities: engine.Table(t, "EntitiesTable"), events: engine.Table(t, "EventsTable"),
	}
	service, err := dynamo.NewService(engine.Client(), d.entities)
	if err == nil {
		_, err = service.Create(t.Context()) // as the job monitor does
	}
	if err != nil {
		t.Fatal(err)
	}
	d.env = []string{
		"AUTH_MODE=none", "KEYS_TABLE=none", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint,
		"COUNTERS_TABLE=" + d.counters, "LIMITS_TABLE=" + d.limits, "ENTITIES_TABLE=" + d.entities, "EVENTS_TABLE=" + d.events,
	}
	return d
}

// start starts n instances of a function, and waits until their init is complete.
func (d deployment) start(t *testing.T, function string, n int) []*lambdatest.Instance {
	t.Helper()
	return d.startBinary(t, lambdatest.Build(t, function), n)
}

func (d deployment) startBinary(t *testing.T, binary string, n int) []*lambdatest.Instance {
	t.Helper()
	instances := make([]*lambdatest.Instance, n)
	for i := range instances {
		instances[i] = lambdatest.Start(t, binary, d.env...)
	}
	for _, i := range instances {
		if err := i.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return instances
}

func invoke(t *testing.T, i *lambdatest.Instance, ev events.APIGatewayV2HTTPRequest, wantStatus int) events.APIGatewayV2HTTPResponse {
	t.Helper()
	resp, err := i.Invoke(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != wantStatus {
		t.Fatalf("%s %s: status %d, want %d: %s", ev.RequestContext.HTTP.Method, ev.RawPath, resp.StatusCode, wantStatus, resp.Body)
	}
	return resp
}

type window struct {
	outcome
	cost int64
}

type outcome struct{ admitted, refused int }

// demand says what flood sends and when it stops.
type demand struct {
	full  int // stop when more than this number of windows have a refusal
	event func(worker, n int) events.APIGatewayV2HTTPRequest
	cost  func(events.APIGatewayV2HTTPResponse) int64 // returns the cost of an admitted request; nil if each costs 1
}

// flood invokes all instances concurrently, each with one event at a time, and counts the
// outcomes by window. It stops at d.full. After a refusal, a worker rests for
// refusedRest.
func flood(t *testing.T, instances []*lambdatest.Instance, d demand) map[ratelimit.Window]window {
	t.Helper()
	if d.cost == nil {
		d.cost = func(events.APIGatewayV2HTTPResponse) int64 { return 1 }
	}
	served := []int{http.StatusOK, http.StatusCreated, http.StatusUnauthorized, http.StatusNotFound}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	windows, full := make(map[ratelimit.Window]window), make(map[ratelimit.Window]bool)
	var mu sync.Mutex
	note := func(resp events.APIGatewayV2HTTPResponse) {
		reset, err := strconv.ParseInt(resp.Headers["X-RateLimit-Reset"], 10, 64)
		if err != nil {
			t.Errorf("X-RateLimit-Reset: %v", err)
		}
		at := ratelimit.Window(reset - 1)
		mu.Lock()
		defer mu.Unlock()
		w := windows[at]
		switch {
		case slices.Contains(served, resp.StatusCode):
			w.admitted++
			w.cost += d.cost(resp)
		case resp.StatusCode == http.StatusTooManyRequests:
			w.refused++
		default:
			t.Errorf("status %d: %s", resp.StatusCode, resp.Body)
			cancel()
		}
		windows[at] = w
		if w.refused > 0 {
			full[at] = true
		}
		if len(full) > d.full {
			cancel()
		}
	}
	var wg sync.WaitGroup
	for worker, instance := range instances {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// A request in progress when the flood stops is still completed and counted.
				resp, err := instance.Invoke(context.WithoutCancel(ctx), d.event(worker, n))
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				note(resp)
				rest(resp.StatusCode)
			}
		})
	}
	wg.Wait()
	if len(full) <= d.full && !t.Failed() {
		t.Fatalf("only %d windows in eight minutes saw more demand than the limit; the machine is too slow for this test", len(full))
	}
	return windows
}

// refusedRest leaves processor time for other tests. Eight workers can still send 1,600
// requests a second, eight times the default limit.
const refusedRest = 5 * time.Millisecond

func rest(status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		<-time.After(refusedRest)
	}
}

// counter returns the value of a counter, or 0 if it does not exist.
func (d deployment) counter(t *testing.T, key ratelimit.Key, name string) int64 {
	t.Helper()
	out, err := dynamolocal.Client(t).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &d.counters, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{
			"pk":     &types.AttributeValueMemberS{Value: fmt.Sprintf("%s#%s#%d", key.Identity, key.Group, key.Window/60*60)},
			"second": &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(key.Window), 10)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n, ok := out.Item[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func count(t *testing.T, table string) (n int) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(dynamolocal.Client(t), &dynamodb.ScanInput{TableName: &table, Select: types.SelectCount, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += int(page.Count)
	}
	return n
}

type calls struct {
	mu      sync.Mutex
	charges map[ratelimit.Window]int
	reads   int // number of Query calls
}

// countCalls counts the DynamoDB calls of all functions that start later.
func (d *deployment) countCalls(t *testing.T) *calls {
	t.Helper()
	c := &calls{charges: make(map[ratelimit.Window]int)}
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	proxy.Observe(func(call dynamoproxy.Call, key map[string]string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case call.Table == d.counters && key["second"] != "":
			second, err := strconv.ParseInt(key["second"], 10, 64)
			if err != nil {
				t.Errorf("the sort key %q is not a window", key["second"])
			}
			c.charges[ratelimit.Window(second)]++
		case call.Operation == "Query":
			c.reads++
		}
	})
	d.env = append(d.env, "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL) // overrides the earlier value
	return c
}

// The speed of the machine does not matter: a refusal proves that the limit was reached, and
// counters never decrease. In each window, the functions make one charge call per admitted
// request, plus at most one per instance.
func TestImportsAdmitExactlyTheLimitAcrossProcesses(t *testing.T) {
	const address, processes, windowsWanted, limit = "198.51.100.7", 8, 5, 40
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, fmt.Sprint("LIMIT_IMPORTS=", limit))
	calls := d.countCalls(t)
	windows := flood(t, d.start(t, "create-event", processes), demand{full: windowsWanted, event: func(worker, n int) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("POST", "/create_event", address, fmt.Sprintf(`{"id":"%d-%d","name":"n"}`, worker, n))
	}})
	total := d.wantWindows(t, windows, calls, ratelimit.Key{Identity: address, Group: "import"}, "imports", limit, processes)
	if n := count(t, d.events); n != total {
		t.Errorf("%d events are stored after %d were admitted", n, total)
	}
}

func TestExportsAdmitWholePagesUpToTheLimitAcrossProcesses(t *testing.T) {
	const address, processes, windowsWanted, page = "198.51.100.7", 8, 5, 7
	d := deploy(t, dynamolocal.Endpoint(t))
	seedEntities(t, d, 2*page)
	calls := d.countCalls(t)
	windows := flood(t, d.start(t, "list-entity", processes), demand{
		full: windowsWanted,
		event: func(int, int) events.APIGatewayV2HTTPRequest {
			return lambdatest.Event("GET", fmt.Sprintf("/entity?limit=%d", page), address, "")
		},
		cost: func(resp events.APIGatewayV2HTTPResponse) int64 { return int64(strings.Count(resp.Body, `"id":`)) },
	})
	admitted := d.wantWindows(t, windows, calls, ratelimit.Key{Identity: address, Group: "export"}, "records", 196, processes)
	// Each instance reads the indexed attributes when it starts, and may read one extra page per
	// window before it knows that the limit is exhausted.
	if most := admitted + (len(windows)+1)*processes; calls.reads > most {
		t.Errorf("%d reads, want at most %d", calls.reads, most)
	}
}

// wantWindows checks that no window admitted more than the limit, that every window with a
// refusal admitted exactly the limit, and that the stored counters and the charge calls agree.
// It returns the number of admitted requests.
func (d *deployment) wantWindows(t *testing.T, windows map[ratelimit.Window]window, calls *calls, key ratelimit.Key, counter string, limit int64, processes int) (admitted int) {
	t.Helper()
	calls.mu.Lock()
	defer calls.mu.Unlock()
	for w, got := range windows {
		t.Logf("window %d: %d in %d requests admitted, %d refused, %d charge calls", w, got.cost, got.admitted, got.refused, calls.charges[w])
		if got.cost > limit || got.refused > 0 && got.cost != limit {
			t.Errorf("window %d: %d admitted with %d requests refused, want %d", w, got.cost, got.refused, limit)
		}
		key.Window = w
		if stored := d.counter(t, key, counter); stored != got.cost {
			t.Errorf("window %d: the counter holds %d after %d were admitted", w, stored, got.cost)
		}
		if n := calls.charges[w]; n < got.admitted || n > got.admitted+processes {
			t.Errorf("window %d: %d charge calls for %d admitted requests", w, n, got.admitted)
		}
		admitted += got.admitted
	}
	return admitted
}

func TestEachChargeIsOneCallAndOneWriteUnit(t *testing.T) {
	const calls = 25
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.setRow(t, "192.0.2.0/24", ratelimit.Limits{Imports: 100}) // a row adds no calls per request
	create := d.start(t, "create-event", 1)[0]
	list := d.start(t, "list-event", 1)[0]
	scan := dynamoproxy.Call{Operation: "Scan", Table: d.limits}
	update := dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}
	identify := dynamoproxy.Call{Operation: "GetItem", Table: d.entities}
	indexes := dynamoproxy.Call{Operation: "Query", Table: d.entities}
	if usage := proxy.Usage(); usage[identify].Calls != 2 || usage[indexes].Calls != 2 || usage[scan].Calls != 2 || len(usage) != 3 {
		t.Errorf("the init phases of two instances made the calls %v, want one read of the service's item and of the declared indexes, and one scan each", usage)
	}
	for n := range calls {
		invoke(t, create, lambdatest.Event("POST", "/create_event", "192.0.2.1", fmt.Sprintf(`{"id":"%d","name":"n"}`, n)), http.StatusCreated)
		invoke(t, list, lambdatest.Event("GET", "/event?limit=1", "192.0.2.1", ""), http.StatusOK)
	}
	usage := proxy.Usage()
	if charges := usage[update]; charges.Calls != 2*calls || charges.Units != 2*calls {
		t.Errorf("%d requests of two rules each were charged in %d calls and %v write units, want one call and one write unit per request", 2*calls, charges.Calls, charges.Units)
	}
	if n := usage[dynamoproxy.Call{Operation: "PutItem", Table: d.events}].Calls; n != calls {
		t.Errorf("%d events were written in %d calls", calls, n)
	}
	if n := usage[dynamoproxy.Call{Operation: "Query", Table: d.events}].Calls; n != calls {
		t.Errorf("%d lists were read in %d calls", calls, n)
	}
	if usage[scan].Calls != 2 || usage[identify].Calls != 2 || usage[indexes].Calls != 2 || len(usage) != 6 {
		t.Errorf("the functions made other calls as well: %v", usage)
	}
}

// The test also shows that a function's first request opens no connection, and that a function
// needs exactly the permissions of its policy.
func TestEveryFunctionRespondsAsDescribed(t *testing.T) {
	spec, err := openapitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	d := deploy(t, dynamolocal.Endpoint(t))
	keys := d.guard(t)
	mine := "Bearer " + keys.create(t, "mine", access.Scopes()...)
	keys.createLike(t, access.Key{Workspace: "mine", Plan: "another", Scopes: []access.Scope{access.Export}}) // whose usage is listed
	d.index(t, "mine", "found", "a", "b", "c", "d")
	d.index(t, "mine", "", "name")
	exports := dynamolocal.Table(t, "ExportJobsTable")
	putExportJob(t, exports, "mine", "done")
	buckets := map[string]*s3Proxy{"get-export-job": startS3Proxy(t, ""), "delete-export-job": startS3Proxy(t, "")}
	steps := append(stepsOf(t, mine, buckets["get-export-job"]), adminSteps(t, keys)...)
	d.env = append(d.env, "ADMIN_ROUTES=on", "AUDIT_TABLE="+dynamolocal.Table(t, "AuditTable"), "EVENT_SHARDS=4", "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"), "EXPORT_JOBS_TABLE="+exports, "EXPORT_JOBS_BUCKET=exports")
	instances := make(map[string]*lambdatest.Instance)
	proxies := make(map[string]*dynamoproxy.Proxy)
	for _, s := range steps {
		instance, first, early, calls := instances[s.function], false, 0, 0 // early is how many connections init opened for its calls
		if instance == nil {
			first = true
			proxies[s.function] = dynamoproxy.Start(t, dynamolocal.Endpoint(t))
			d.env = append(d.env, "AWS_ENDPOINT_URL_DYNAMODB="+proxies[s.function].URL) // overrides the earlier value
			if bucket := buckets[s.function]; bucket != nil {
				d.env = append(d.env, "AWS_ENDPOINT_URL_S3="+bucket.url)
			}
			instance = d.start(t, s.function, 1)[0]
			instances[s.function] = instance
			early = proxies[s.function].Opened()
			for _, of := range proxies[s.function].Usage() {
				calls += of.Calls
			}
			keys.checkInvalidKeys(t, proxies[s.function], instance, s.function, lambdatest.Event(s.method, s.path, "192.0.2.2", s.body))
		}
		ev := lambdatest.Event(s.method, s.path, "192.0.2.1", s.body)
		ev.Headers["authorization"] = mine
		resp := invoke(t, instance, ev, s.status)
		if want := max(bootstrap.Connections(s.function), calls); first && (early != want || proxies[s.function].Opened() != want) {
			d.checkConnections(t, s.function, ev, want)
		}
		if !strings.Contains(resp.Body, s.want) {
			t.Errorf("%s %s: the body lacks %s: %s", s.method, s.path, s.want, resp.Body)
		}
		if link := downloadURL.FindStringSubmatch(resp.Body); link != nil {
			if _, err := http.Get(link[1]); err != nil {
				t.Error(err)
			}
		}
		header := make(http.Header)
		for name, value := range resp.Headers {
			header.Set(name, value)
		}
		if err := spec.Check(openapitest.Response{Method: s.method, Target: s.path, Status: resp.StatusCode, Header: header, Body: []byte(resp.Body)}); err != nil {
			t.Error(err)
		}
	}
	counted := lambdatest.Event("POST", "/create_api_key", "192.0.2.1", `{"scopes":["export"]}`)
	counted.Headers["authorization"] = "Bearer " + keys.create(t, "mine", access.Admin, access.Export)
	invoke(t, instances["create-api-key"], counted, http.StatusCreated)
	for _, r := range httpapi.Routes() {
		checkGrants(t, r.Name, proxies[r.Name], buckets[r.Name])
	}
}

var downloadURL = regexp.MustCompile(`"download_url":"([^"]+)"`)

// putExportJob stores a job that has a file.
func putExportJob(t *testing.T, table, workspace, id string) {
	t.Helper()
	jobs, err := dynamo.NewJobs(dynamolocal.Client(t), exportjob.Kind, table)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	details, err := json.Marshal(map[string]any{"resource": "event", "format": "csv", "size_bytes": 1, "file_expires_at": now.AddDate(0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	created := record.TimeOf(now.Add(-time.Hour))
	j := exportjob.Kind.Finish(job.Job{Workspace: workspace, ID: id, CreatedAt: created, Until: created, Revision: 1, Details: details}, job.Succeeded, now)
	if _, put, err := jobs.Put(t.Context(), j); !put || err != nil {
		t.Fatal(put, err)
	}
}

// checkConnections checks that init opens as many connections as wanted, and that the first
// request opens none. On a busy machine, net/http sometimes drops a connection because the
// response arrives before the request is completely written, so it is enough if one of three
// instances passes.
func (d deployment) checkConnections(t *testing.T, function string, ev events.APIGatewayV2HTTPRequest, want int) {
	t.Helper()
	var opened []int
	for range 3 {
		proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
		again := d
		again.env = append(slices.Clone(d.env), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL)
		instance := again.start(t, function, 1)[0]
		early := proxy.Opened()
		if _, err := instance.Invoke(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
		if opened = append(opened, early, proxy.Opened()); early == want && proxy.Opened() == want {
			return
		}
	}
	t.Errorf("%s opens %v connections until its first response, want %d", function, opened, want)
}

// A request reuses the connections that concurrent calls of earlier requests opened.
func TestConnectionsAreKept(t *testing.T) {
	const lists, atOnce = 30, 16
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "EVENT_SHARDS=64")
	instance := d.start(t, "list-event", 1)[0]
	for range lists {
		invoke(t, instance, lambdatest.Event("GET", "/event", "192.0.2.1", ""), http.StatusOK)
	}
	// While net/http dials, another connection may become idle. net/http then uses the idle one,
	// but still completes the dial, so there can be more connections than concurrent calls.
	if n := proxy.Opened(); n > 3*atOnce {
		t.Errorf("%d lists of %d calls at once made %d connections", lists, atOnce, n)
	} else {
		t.Logf("%d connections", n)
	}
}
