// Package money measures what each route consumes of DynamoDB, by the real
// function binaries, and what a million requests cost.
package money

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/bench/report"
	"sluice/internal/dynamolocal"
	"sluice/internal/dynamoproxy"
	"sluice/internal/lambdatest"
	"sluice/internal/secrettest"
	"sluice/pkg/access"
	accessdynamo "sluice/pkg/access/dynamostore"
	"sluice/pkg/entity"
	entitydynamo "sluice/pkg/entity/dynamostore"
	"sluice/pkg/event"
	eventdynamo "sluice/pkg/event/dynamostore"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

const (
	seeded    = 60 // entities and events that are there; more than a list shows
	repeats   = 10 // requests of each kind that are metered
	workspace = "mine"
)

// attributes make a record of about 300 bytes.
const attributes = `{"plan":"free","country":"NZ","note":"what a client keeps of a person or of a thing that happened, in a few words that are about as long as this, and perhaps a little longer","n":12345.50}`

// kind is a request whose cost is of interest.
type kind struct {
	function, what, method, path string
	body                         func(n int) string // of the nth request; nil for none
	status                       int
	ms                           float64 // billed
	reads                        float64 // read units, where the engine does not count all; 0 where it does
}

// usageReads is what "GET /usage" takes: half a unit for each class in each
// second, whether there is an item or not (developer guide, "DynamoDB read and
// write operations"). DynamoDB Local counts those that there are.
const usageReads = 0.5 * 3 * float64(ratelimit.UsageWindows)

func kinds() []kind {
	body := func(format string) func(int) string {
		return func(n int) string { return fmt.Sprintf(format, n) }
	}
	eventBody := func(id string) string {
		return fmt.Sprintf(`{"id":"%s","name":"signed_up","entity_id":"e-7","attributes":%s}`, id, attributes)
	}
	batch := func(n int) string {
		all := make([]string, 100)
		for i := range all {
			all[i] = eventBody(fmt.Sprintf("batch-%d-%d", n, i))
		}
		return `{"events":[` + strings.Join(all, ",") + `]}`
	}
	return []kind{
		{"get-entity", "one", "GET", "/entity/e-7", nil, 200, billedMS, 0},
		{"list-entity", "50 of 300 bytes", "GET", "/entity?limit=50", nil, 200, billedMS, 0},
		{"get-event", "one", "GET", "/event/v-7", nil, 200, billedMS, 0},
		{"list-event", "50 of 300 bytes", "GET", "/event?limit=50", nil, 200, billedMS, 0},
		{"create-entity", "300 bytes", "POST", "/create_entity", body(`{"id":"new-%d","type":"person","attributes":` + attributes + `}`), 201, billedMS, 0},
		{"update-entity", "300 bytes", "POST", "/update_entity", body(`{"id":"e-7","attributes":{"n":%d}}`), 200, billedMS, 0},
		{"delete-entity", "300 bytes", "POST", "/delete_entity", body(`{"id":"e-%d"}`), 200, billedMS, 0},
		{"create-event", "300 bytes", "POST", "/create_event", func(n int) string { return eventBody(fmt.Sprint("new-", n)) }, 201, billedMS, 0},
		{"create-events", "100 of 300 bytes", "POST", "/create_events", batch, 201, billedBatchMS, 0},
		{"create-export-job", "", "POST", "/create_export_job", body(`{"id":"job-%d","resource":"event","format":"ndjson"}`), 201, billedMS, 0},
		{"list-export-job", "10 jobs", "GET", "/export_job?limit=10", nil, 200, billedMS, 0},
		{"get-export-job", "", "GET", "/export_job/job-1", nil, 200, billedMS, 0},
		{"cancel-export-job", "", "POST", "/cancel_export_job", body(`{"id":"job-%d"}`), 200, billedMS, 0},
		{"usage", "the last minute", "GET", "/usage", nil, 200, billedMS, usageReads},
		{"openapi", "", "GET", "/openapi.yaml", nil, 200, billedMS, 0},
		{"dashboard", "", "GET", "/dashboard", nil, 200, billedMS, 0},
		{"not-found", "", "GET", "/nowhere", nil, 404, billedMS, 0},
	}
}

// event is the nth request, from the address, with the key.
func (k kind) event(n int, address, key string) events.APIGatewayV2HTTPRequest {
	body := ""
	if k.body != nil {
		body = k.body(n)
	}
	ev := lambdatest.Event(k.method, k.path, address, body)
	ev.Headers["authorization"] = "Bearer " + key
	if i := strings.LastIndexByte(k.path, '/'); i > 0 {
		ev.PathParameters = map[string]string{"id": k.path[i+1:]}
	}
	return ev
}

// consumed is what requests take of DynamoDB.
type consumed struct{ calls, writes, reads float64 }

func (c consumed) dollars() float64 { return c.writes*writeUnits.dollars + c.reads*readUnits.dollars }

// consumedBy is what has passed a proxy.
func consumedBy(p *dynamoproxy.Proxy) (c consumed) {
	reads := []string{"GetItem", "Query", "BatchGetItem", "Scan"}
	for call, usage := range p.Usage() {
		c.calls += float64(usage.Calls)
		if slices.Contains(reads, call.Operation) {
			c.reads += usage.Units
		} else {
			c.writes += usage.Units
		}
	}
	return c
}

func (c consumed) since(before consumed, requests float64) consumed {
	return consumed{(c.calls - before.calls) / requests, (c.writes - before.writes) / requests, (c.reads - before.reads) / requests}
}

// Measure runs everything.
func Measure(t *testing.T) []report.Section {
	d := deploy(t)
	s := report.Section{
		Title: "Money",
		About: fmt.Sprintf("What a request of each route consumes of DynamoDB, by the real functions, with an access key that the instance knows, "+
			"and what a million cost in USD by the list prices below: allowed, and refused by an instance that knows the limit is used up. "+
			"Besides DynamoDB there are API Gateway, Lambda (%.0f MB; %d ms are assumed, %d for a batch), %.1f KB of logs and a trace of one in %.0f. "+
			"The export worker and data out to the internet come on top.", memoryGB*1024, billedMS, billedBatchMS, logKB, 1/tracedRequests),
		Header: []string{"Route", "Of", "Calls", "Write units", "Read units", "DynamoDB $", "In all $", "Refused: calls", "Units", "In all $"},
	}
	for _, k := range kinds() {
		allowed, refused := d.measure(t, k)
		s.Rows = append(s.Rows, []string{
			k.function, k.what, report.Number(allowed.calls), report.Number(allowed.writes), report.Number(allowed.reads),
			fmt.Sprintf("%.2f", allowed.dollars()), fmt.Sprintf("%.2f", besides(k.ms)+allowed.dollars()),
			report.Number(refused.calls), report.Number(refused.writes + refused.reads), fmt.Sprintf("%.2f", besides(billedMS)+refused.dollars()),
		})
	}
	return []report.Section{s, prices()}
}

func prices() report.Section {
	s := report.Section{
		Title:  "Prices",
		About:  "USD, " + pricesRegion + ", " + pricesAsOf + ". Compared with what others have published where AWS's own pages, which fill in prices by script, could not be read: look them up before you rely on them.",
		Header: []string{"", "USD", "A", "Compared with"},
	}
	for _, p := range allPrices {
		s.Rows = append(s.Rows, []string{p.name, strconv.FormatFloat(p.dollars, 'f', -1, 64), p.per, p.source})
	}
	return s
}

// deployment is a set of tables with some records, and a key to all of them.
type deployment struct {
	env []string
	key string
}

func deploy(t *testing.T) deployment {
	t.Helper()
	client, entities, stored, keys := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable"), dynamolocal.Table(t, "EventsTable"), dynamolocal.Table(t, "KeysTable")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	entityStore, err := entitydynamo.New(client, entities)
	check(err)
	eventStore, err := eventdynamo.New(client, stored, eventdynamo.Config{Shards: 1})
	check(err)
	now := time.Now()
	for i := range seeded {
		_, _, err := entity.Create(t.Context(), entityStore, workspace, entity.Entity{ID: fmt.Sprint("e-", i), Type: "person", Attributes: record.Attributes(attributes)}, now)
		check(err)
		_, _, err = event.Create(t.Context(), eventStore, workspace, event.New{Event: event.Event{
			ID: fmt.Sprint("v-", i), Name: "signed_up", EntityID: "e-7", Attributes: record.Attributes(attributes),
		}}, now)
		check(err)
	}
	keyStore, err := accessdynamo.New(client, keys)
	check(err)
	key, token := secrettest.New(t, access.Key{Workspace: workspace, Scopes: access.Scopes()}, now)
	check(keyStore.Create(t.Context(), key))
	return deployment{key: token.Reveal(), env: []string{
		"COUNTERS_TABLE=" + dynamolocal.Table(t, "CountersTable"), "ENTITIES_TABLE=" + entities, "EVENTS_TABLE=" + stored, "KEYS_TABLE=" + keys,
		"EXPORT_JOBS_TABLE=" + dynamolocal.Table(t, "ExportJobsTable"), "EXPORT_JOBS_BUCKET=exports", "EXPORT_FILE_DAYS=7",
	}}
}

// measure is what requests of a kind take that are allowed, and one that is
// refused by an instance which knows that the limit is used up.
func (d deployment) measure(t *testing.T, k kind) (allowed, refused consumed) {
	t.Helper()
	binary := lambdatest.Build(t, k.function)
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	start := func(env ...string) *lambdatest.Instance {
		i := lambdatest.Start(t, binary, append(append(env, d.env...), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL)...)
		if err := i.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return i
	}
	invoke := func(i *lambdatest.Instance, address string, n int) events.APIGatewayV2HTTPResponse {
		resp, err := i.Invoke(t.Context(), k.event(n, address, d.key))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}

	// The limits are such that none of these comes near.
	free := start("LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=1000000", "LIMIT_REQUESTS=1000000")
	invoke(free, "192.0.2.1", 0) // reads the key
	before := consumedBy(proxy)
	for n := range repeats {
		if resp := invoke(free, "192.0.2.1", n+1); resp.StatusCode != k.status {
			t.Fatalf("%s: %d %s", k.function, resp.StatusCode, resp.Body)
		}
	}
	allowed = consumedBy(proxy).since(before, repeats)
	allowed.reads = max(allowed.reads, k.reads)
	free.Stop()

	// The second request of a window is refused, and the first has told so.
	const tries = 100
	limited := start("LIMIT_REQUESTS=1")
	defer limited.Stop()
	for n := range tries {
		before := consumedBy(proxy)
		if invoke(limited, "192.0.2.2", repeats+1+n).StatusCode == http.StatusTooManyRequests {
			return allowed, consumedBy(proxy).since(before, 1)
		}
	}
	t.Fatalf("%s: nothing was refused", k.function)
	return
}
