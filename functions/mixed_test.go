package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// mixed is a deployment whose functions are of two revisions. An update of the stack causes
// this: while CodeDeploy moves the traffic, both serve requests from the same tables, which have
// the new definition.
type mixed struct {
	deployment
	base string // directory of the binaries of the other revision

	keys      keyring
	next      int // index of the next request
	instances map[string][2]*lambdatest.Instance
	counts    map[string]int
}

// TestMixedRevisions is run by hand (see CONTRIBUTING.md). It fails if a response is 5xx, if a
// window does not admit exactly the limit, or if a revision does not read what the other wrote.
func TestMixedRevisions(t *testing.T) {
	base := os.Getenv("MIXED_BASE")
	if base == "" {
		t.Skip("run by hand: make mixed BASE=REVISION")
	}
	for first, name := range []string{"the other revision first", "this revision first"} {
		t.Run(name, func(t *testing.T) {
			m := mixed{deployment: deploy(t, dynamolocal.Endpoint(t)), base: base, next: first, instances: make(map[string][2]*lambdatest.Instance), counts: make(map[string]int)}
			m.keys = m.guard(t)
			m.index(t, "mine", "found", "a", "b", "c", "d") // before an instance reads the declarations
			m.index(t, "theirs", "t", "a")
			m.requests(t)
			m.lists(t)
			t.Log(m.counts)
		})
		t.Run("jobs, "+name, func(t *testing.T) { mixedJobs(t, base, first) })
	}
	t.Run("limits", func(t *testing.T) { mixedLimits(t, base) })
}

// revision returns the path of a function's binary of the other revision (0) or of this one (1). A
// function that the other revision lacks is of this one.
func revision(t *testing.T, base, function string, i int) string {
	t.Helper()
	path := filepath.Join(base, function)
	if _, err := os.Stat(path); i == 1 || err != nil {
		return lambdatest.Build(t, function)
	}
	return path
}

func (m *mixed) pair(t *testing.T, function string) [2]*lambdatest.Instance {
	t.Helper()
	pair, ok := m.instances[function]
	if !ok {
		for i := range pair {
			pair[i] = m.startBinary(t, revision(t, m.base, function, i), 1)[0]
		}
		m.instances[function] = pair
	}
	return pair
}

// send sends a request to one revision, and the next request to the other. Each has its own
// address, so that none is refused.
func (m *mixed) send(t *testing.T, function, method, target, body, key string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	m.next++
	return m.sendTo(t, m.next%2, function, method, target, body, key)
}

func (m *mixed) sendTo(t *testing.T, i int, function, method, target, body, key string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	m.counts["requests"]++
	ev := lambdatest.Event(method, target, fmt.Sprintf("198.18.%d.%d", m.counts["requests"]/250, m.counts["requests"]%250+1), body)
	ev.Headers["authorization"] = key
	resp, err := m.pair(t, function)[i].Invoke(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 500 {
		t.Errorf("%s %s %s: %d %s", [2]string{"the other revision", "this revision"}[i], method, target, resp.StatusCode, resp.Body)
	}
	return resp
}

// requests sends the requests of TestEveryFunctionRespondsAsDescribed to the two revisions in
// turns. After each write, both must read the same.
func (m *mixed) requests(t *testing.T) {
	t.Helper()
	bucket := startS3Proxy(t, "")
	mine := "Bearer " + m.keys.create(t, "mine", access.Scopes()...)
	exports := dynamolocal.Table(t, "ExportJobsTable")
	putExportJob(t, exports, "mine", "done")
	m.env = append(m.env, "EVENT_SHARDS=4", "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"), "EXPORT_JOBS_TABLE="+exports, "EXPORT_JOBS_BUCKET=exports", "AWS_ENDPOINT_URL_S3="+bucket.url)
	for _, s := range stepsOf(t, mine, bucket) {
		resp := m.send(t, s.function, s.method, s.path, s.body, mine)
		if resp.StatusCode != s.status {
			m.counts["other statuses"]++
			t.Logf("%s %s: %d instead of %d", s.method, s.path, resp.StatusCode, s.status)
		}
		if s.method != http.MethodGet || s.status != http.StatusOK || slices.Contains([]string{"dashboard", "openapi", "usage"}, s.function) {
			continue
		}
		var read [2]any
		for i := range read {
			read[i] = data(t, m.sendTo(t, i, s.function, s.method, s.path, s.body, mine))
		}
		m.counts["reads by both"]++
		if got := fmt.Sprint(read[0]); got != fmt.Sprint(read[1]) {
			t.Errorf("GET %s: the other revision reads\n%s\nand this one\n%s", s.path, got, fmt.Sprint(read[1]))
		}
	}
}

// data returns what a response says about records or jobs, without what differs each time.
func data(t *testing.T, resp events.APIGatewayV2HTTPResponse) any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(resp.Body), &body); err != nil {
		t.Errorf("%d %s: %v", resp.StatusCode, resp.Body, err)
	}
	if list, ok := body["data"]; ok {
		return list
	}
	delete(body, "download_url") // signed
	return body
}

// lists writes records with both revisions, and walks through every kind of list, with pages of the
// two revisions in turns, so that each continues from the other's cursor.
func (m *mixed) lists(t *testing.T) {
	t.Helper()
	const n, page = 40, 7
	theirs := "Bearer " + m.keys.create(t, "theirs", access.Scopes()...)
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for i := range n {
		entity := fmt.Sprintf(`{"id":"e%02d","type":"t","attributes":{"a":"%d"}}`, i, i%3)
		if i%4 < 2 {
			m.send(t, "create-entity", "POST", "/create_entity", entity, theirs)
		} else {
			m.send(t, "upsert-entities", "POST", "/upsert_entities", `{"entities":[`+entity+`]}`, theirs)
		}
		m.send(t, "update-entity", "POST", "/update_entity", fmt.Sprintf(`{"id":"e%02d","attributes":{"a":"x","n":%d.50}}`, i, i), theirs)
		m.send(t, "create-event", "POST", "/create_event", fmt.Sprintf(`{"id":"e%02d","name":"n","entity_id":"e"}`, i), theirs)
		if i%4 == 3 {
			m.next++ // so that each kind of write is made by both
		}
	}
	<-time.After(record.SyncLag) // the old functions may hold back what is younger
	for function, lists := range map[string][]string{
		"list-entity": {"", "type=t", "type=t&attributes.a=x", "updated_since=" + since},
		"list-event":  {"", "order=asc", "entity_id=e", "created_since=" + since},
	} {
		path := map[string]string{"list-entity": "/entity", "list-event": "/event"}[function]
		for _, list := range lists {
			seen := make(map[string]int)
			for target := fmt.Sprintf("%s?limit=%d&%s", path, page, list); ; {
				resp := m.send(t, function, "GET", target, "", theirs)
				var got struct {
					Data []struct{ ID string }
					Next *string `json:"next_cursor"`
				}
				if err := json.Unmarshal([]byte(resp.Body), &got); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("GET %s?%s: %d %s, %v", path, list, resp.StatusCode, resp.Body, err)
					break
				}
				for _, r := range got.Data {
					seen[r.ID]++
				}
				if m.counts["pages"]++; got.Next == nil || len(seen) > n {
					break
				}
				target = fmt.Sprintf("%s?limit=%d&%s&cursor=%s", path, page, list, url.QueryEscape(*got.Next))
			}
			if len(seen) != n {
				t.Errorf("GET %s?%s: %d of %d records", path, list, len(seen), n)
			}
			m.counts["records read"] += len(seen)
		}
	}
}

// mixedLimits floods the functions of both revisions at the same time.
func mixedLimits(t *testing.T, base string) {
	t.Helper()
	const address, processes, windowsWanted, limit, page = "198.51.100.7", 8, 3, 80, 7
	half := func(d deployment, function string) []*lambdatest.Instance {
		return append(d.startBinary(t, revision(t, base, function, 0), processes/2), d.startBinary(t, revision(t, base, function, 1), processes/2)...)
	}
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, fmt.Sprint("LIMIT_IMPORTS=", limit))
	calls := d.countCalls(t)
	windows := flood(t, half(d, "create-event"), demand{full: windowsWanted, event: func(worker, n int) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("POST", "/create_event", address, fmt.Sprintf(`{"id":"%d-%d","name":"n"}`, worker, n))
	}})
	total := d.wantWindows(t, windows, calls, ratelimit.Key{Identity: address, Group: "import"}, "imports", limit, processes)
	if n := count(t, d.events); n != total {
		t.Errorf("%d events are stored after %d were admitted", n, total)
	}

	d = deploy(t, dynamolocal.Endpoint(t))
	seedEntities(t, d, 2*page)
	calls = d.countCalls(t)
	windows = flood(t, half(d, "list-entity"), demand{
		full: windowsWanted,
		event: func(int, int) events.APIGatewayV2HTTPRequest {
			return lambdatest.Event("GET", fmt.Sprintf("/entity?limit=%d", page), address, "")
		},
		cost: func(resp events.APIGatewayV2HTTPResponse) int64 {
			var list struct{ Data []any }
			if err := json.Unmarshal([]byte(resp.Body), &list); err != nil {
				t.Error(err)
			}
			return int64(len(list.Data))
		},
	})
	d.wantWindows(t, windows, calls, ratelimit.Key{Identity: address, Group: "export"}, "records", 196, processes)
}

// mixedJobs runs jobs that one revision created with the workers of the other, which also reads
// their state.
func mixedJobs(t *testing.T, base string, creator int) {
	t.Helper()
	engine := dynamolocal.Shared(t)
	x := deployExports(t, engine, 1)
	erasures := engine.Table(t, "ErasureJobsTable")
	x.env = append(x.env, "ERASURE_JOBS_TABLE="+erasures)
	queue := openStream(t, engine, erasures, "erasure-worker")
	instance := func(function string, i int) *lambdatest.Instance {
		return x.startBinary(t, revision(t, base, function, i), 1)[0]
	}
	x.create = instance("create-export-job", creator)
	imports := instance("create-events", creator)
	invoke(t, imports, lambdatest.Event("POST", "/create_events", "192.0.2.1", `{"events":[{"id":"a","name":"n","entity_id":"e"},{"id":"b","name":"n","entity_id":"e"},{"id":"c","name":"n"}]}`), http.StatusCreated)
	invoke(t, instance("create-entity", creator), lambdatest.Event("POST", "/create_entity", "192.0.2.1", `{"id":"e"}`), http.StatusCreated)

	ordered := []any{x.order(t, "x1", `"resource":"event","format":"csv"`), x.order(t, "x2", `"resource":"entity","format":"ndjson"`)}
	for i, function := range []string{"export-starter", "export-worker"} {
		if _, err := instance(function, 1-creator).Handle(t.Context(), ordered[i], time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	x.get = instance("get-export-job", creator)
	x.file(t, "x1", 3)
	x.file(t, "x2", 1)

	invoke(t, instance("delete-entity", creator), lambdatest.Event("POST", "/delete_entity", "192.0.2.1", `{"id":"e","events":true}`), http.StatusAccepted)
	if _, err := instance("erasure-worker", 1-creator).Handle(t.Context(), queue.next(t), time.Minute); err != nil {
		t.Fatal(err)
	}
	resp := invoke(t, instance("get-erasure-job", creator), lambdatest.Event("GET", "/erasure_job/e", "192.0.2.1", ""), http.StatusOK)
	var erasure struct {
		Status job.Status
		Erased int `json:"events_erased"`
	}
	if err := json.Unmarshal([]byte(resp.Body), &erasure); err != nil || erasure.Status != job.Succeeded || erasure.Erased != 2 {
		t.Errorf("the erasure is %s, %v", resp.Body, err)
	}
	t.Log("2 export jobs and 1 erasure job succeeded")
}
