// Package money runs the real function binaries against DynamoDB Local, measures which AWS
// resources a request uses, and computes the price of a million requests.
package money

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/cloudwatch"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// List prices in us-east-1, November 2026, in USD, as in docs/cost.md.
const (
	millionRequests   = 1.00 // API Gateway, HTTP API
	millionCalls      = 0.20 // Lambda
	gbSecond          = 0.0000133334
	millionWriteUnits = 0.625
	millionReadUnits  = 0.125
	gbLogs            = 0.50
	millionTraces     = 5.00 // only with Tracing=Active
	metricMonth       = 0.30
	alarms            = 2.00 // a month
	storage           = 0.90 // a month, for records and their recovery, after a year of a million requests a month
)

const (
	billedSeconds  = 0.010 // per invocation; a batch of 100 events takes longer
	memoryGB       = 0.25  // per function, as in template.yaml
	accessLogBytes = 178   // typical line in API Gateway's access log
)

func TestPricesAreThoseOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"List prices in us-east-1, November 2026",
		fmt.Sprintf("%.2f a million requests |", millionRequests),
		fmt.Sprintf("%.2f a million requests; %.10f a GB-second", millionCalls, gbSecond),
		fmt.Sprintf("%.3f a million write units, %.3f a million read units", millionWriteUnits, millionReadUnits),
		fmt.Sprintf("%.2f a GB |", gbLogs),
		fmt.Sprintf("%.2f a million traces", millionTraces),
	} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("docs/cost.md does not say %q", want)
		}
	}
}

// A record with these attributes takes about 300 bytes.
const attributes = `{"plan":"free","country":"NZ","note":"what a client keeps of a person or of a thing that happened, in a few words that are about as long as this, and perhaps a little longer","n":12345.50}`

const (
	seeded    = 60 // number of entities and of events; a list returns only 50 of them
	workspace = "mine"
)

var requests = []struct {
	route, method, target string
	body                  func(n int) string // body of the nth request; nil for a route that takes none
}{
	{"get-entity", "GET", "/entity/e-7", nil},
	{"list-entity", "GET", "/entity?limit=50", nil},
	{"list-event", "GET", "/event?limit=50", nil},
	{"create-entity", "POST", "/create_entity", func(n int) string {
		return fmt.Sprintf(`{"id":"new-%d","type":"person","attributes":%s}`, n, attributes)
	}},
	{"update-entity", "POST", "/update_entity", func(n int) string { return fmt.Sprintf(`{"id":"e-7","attributes":{"n":%d}}`, n) }},
	{"upsert-entities", "POST", "/upsert_entities", func(n int) string {
		all := make([]string, 100)
		for i := range all {
			all[i] = fmt.Sprintf(`{"id":"batch-%d-%d","type":"person","attributes":%s}`, n, i, attributes)
		}
		return `{"entities":[` + strings.Join(all, ",") + `]}`
	}},
	{"delete-entity", "POST", "/delete_entity", func(n int) string { return fmt.Sprintf(`{"id":"e-%d"}`, n%seeded) }},
	{"create-event", "POST", "/create_event", func(n int) string { return newEvent(fmt.Sprint("new-", n)) }},
	{"create-events", "POST", "/create_events", func(n int) string {
		all := make([]string, 100)
		for i := range all {
			all[i] = newEvent(fmt.Sprintf("batch-%d-%d", n, i))
		}
		return `{"events":[` + strings.Join(all, ",") + `]}`
	}},
	{"not-found", "GET", "/nowhere", nil},
}

func newEvent(id string) string {
	return fmt.Sprintf(`{"id":%q,"name":"signed_up","entity_id":"e-7","attributes":%s}`, id, attributes)
}

// BenchmarkMoney measures how many DynamoDB calls a request makes, how many write and read units
// the calls consume, and how many bytes the function logs. It reports the price of a million
// requests, excluding data transfer out of AWS. The instance has already cached the API key.
func BenchmarkMoney(b *testing.B) {
	b.Chdir("../..")
	d := deploy(b)
	for _, r := range requests {
		b.Run("route="+r.route, func(b *testing.B) {
			i := d.start(b, r.route, "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900")
			invoke := func(n int) {
				body := ""
				if r.body != nil {
					body = r.body(n)
				}
				if status := d.invoke(b, i, r.method, r.target, body); status >= 300 && status != http.StatusNotFound {
					b.Fatalf("status %d: %s", status, i.Log())
				}
			}
			invoke(0) // reads and caches the API key
			before, n := d.used(), 0
			for b.Loop() {
				n++
				invoke(n)
			}
			d.used().since(before).report(b, n, i.Log())
		})
	}
	// The limit is one request per second. The function refuses further requests in the same
	// second without calling DynamoDB.
	b.Run("route=get-entity/refused=known", func(b *testing.B) {
		i, n := d.start(b, "get-entity", "LIMIT_REQUESTS=1"), 0
		var refused usage
		for b.Loop() {
			before := d.used()
			if d.invoke(b, i, "GET", "/entity/e-7", "") == http.StatusTooManyRequests {
				refused, n = refused.plus(d.used().since(before)), n+1
			}
		}
		refused.report(b, n, i.Log())
	})
}

// share is how many of 100 requests of docs/cost.md's typical month go to a route.
var share = map[string]int{"get-entity": 60, "list-entity": 20, "create-event": 10, "create-entity": 5, "not-found": 5}

// BenchmarkMonth reports the bill of a month with a million requests, for each value of the
// template's parameter Metrics. Some requests are refused, and one has an invalid key.
func BenchmarkMonth(b *testing.B) {
	b.Chdir("../..")
	d := deploy(b)
	for _, setting := range []string{"all", "service", "none"} {
		b.Run("metrics="+setting, func(b *testing.B) {
			var log strings.Builder
			before := d.used()
			for _, r := range requests {
				i := d.start(b, r.route, "METRICS="+setting, "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900")
				for n := range share[r.route] {
					body := ""
					if r.body != nil {
						body = r.body(n)
					}
					d.invoke(b, i, r.method, r.target, body)
				}
				log.WriteString(i.Log())
			}
			used := d.used().since(before)
			million := price(used, 100, float64(log.Len())/100)
			refused, forged := d.start(b, "get-entity", "METRICS="+setting, "LIMIT_RECORDS=1000000", "LIMIT_REQUESTS=1"), d
			for range 20 {
				d.invoke(b, refused, "GET", "/entity/e-7", "")
			}
			forged.key = "nothing"
			forged.invoke(b, refused, "GET", "/entity/e-7", "")
			log.WriteString(refused.Log())
			published := map[cloudwatch.Metric]float64{{Name: "OldestUnfinishedSeconds"}: 1} // the job monitor's
			for line := range strings.Lines(log.String()) {
				maps.Copy(published, cloudwatch.Metrics(b, cloudwatch.Filters(b, "sluice-prod"), "FunctionLogs", line))
			}
			for b.Loop() {
			}
			b.ReportMetric(float64(len(published)), "metrics")
			b.ReportMetric(million+alarms+storage+metricMonth*float64(len(published)), "USD/month")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// price returns the price of a million requests of which n have used u and logged so many bytes each.
func price(u usage, n int, logged float64) float64 {
	each := float64(max(n, 1))
	return millionRequests + millionCalls + 1e6*billedSeconds*memoryGB*gbSecond +
		(accessLogBytes+logged)/1000*gbLogs + u.writes/each*millionWriteUnits + u.reads/each*millionReadUnits
}

type usage struct{ calls, writes, reads float64 }

func (u usage) plus(v usage) usage {
	return usage{u.calls + v.calls, u.writes + v.writes, u.reads + v.reads}
}

func (u usage) since(v usage) usage { return u.plus(usage{-v.calls, -v.writes, -v.reads}) }

// report sets the metrics: averages per request, and the price of a million requests. u is the
// usage of all n requests, and log has one line for each of them.
func (u usage) report(b *testing.B, n int, log string) {
	each := float64(max(n, 1))
	logged := float64(len(log)) / float64(max(strings.Count(log, "\n"), 1))
	b.ReportMetric(u.calls/each, "calls/op")
	b.ReportMetric(u.writes/each, "WCU/op")
	b.ReportMetric(u.reads/each, "RCU/op")
	b.ReportMetric(logged, "log-B/op")
	b.ReportMetric(price(u, n, logged), "USD/million")
	b.ReportMetric(0, "ns/op") // hides ns/op, which depends on this machine
}

// deployment is a set of tables with some records, a proxy in front of them, and an API key.
type deployment struct {
	proxy *dynamoproxy.Proxy
	env   []string
	key   string
}

func deploy(b *testing.B) deployment {
	b.Helper()
	client := dynamolocal.Client(b)
	table := make(map[string]string)
	for _, id := range []string{"CountersTable", "LimitsTable", "EntitiesTable", "EventsTable", "KeysTable", "ErasureJobsTable"} {
		table[id] = dynamolocal.Table(b, id)
	}
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	entities, err := dynamo.NewEntities(client, table["EntitiesTable"], dynamo.EntitiesConfig{})
	check(err)
	events, err := dynamo.NewEvents(client, table["EventsTable"], dynamo.EventsConfig{})
	check(err)
	keys, err := dynamo.NewKeys(client, table["KeysTable"])
	check(err)
	for n := range seeded {
		_, _, err := entity.Create(b.Context(), entities, workspace, entity.Draft{ID: fmt.Sprint("e-", n), Type: "person", Attributes: record.Attributes(attributes)})
		check(err)
		_, _, err = event.Create(b.Context(), events, workspace, event.Draft{
			ID: fmt.Sprint("v-", n), Name: "signed_up", EntityID: "e-7", Attributes: record.Attributes(attributes),
		})
		check(err)
	}
	key, token := secrettest.New(b, access.Key{Workspace: workspace, Scopes: access.Scopes()}, time.Now())
	check(keys.Create(b.Context(), key))
	return deployment{
		proxy: dynamoproxy.Start(b, dynamolocal.Endpoint(b)),
		env: []string{
			"COUNTERS_TABLE=" + table["CountersTable"], "LIMITS_TABLE=" + table["LimitsTable"], "ENTITIES_TABLE=" + table["EntitiesTable"],
			"EVENTS_TABLE=" + table["EventsTable"], "KEYS_TABLE=" + table["KeysTable"], "ERASURE_JOBS_TABLE=" + table["ErasureJobsTable"], "SERVICE_NAME=sluice-prod",
		},
		key: token.Reveal(),
	}
}

func (d deployment) start(b *testing.B, function string, env ...string) *lambdatest.Instance {
	b.Helper()
	i := lambdatest.Start(b, lambdatest.Build(b, function), slices.Concat(d.env, env, []string{"AWS_ENDPOINT_URL_DYNAMODB=" + d.proxy.URL})...)
	if err := i.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	return i
}

func (d deployment) invoke(b *testing.B, i *lambdatest.Instance, method, target, body string) int {
	b.Helper()
	ev := lambdatest.Event(method, target, "192.0.2.1", body)
	ev.Headers["authorization"] = "Bearer " + d.key
	resp, err := i.Invoke(b.Context(), ev)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode
}

func (d deployment) used() (u usage) {
	for call, of := range d.proxy.Usage() {
		u.calls += float64(of.Calls)
		switch call.Operation {
		case "GetItem", "Query", "BatchGetItem":
			u.reads += of.Units
		default:
			u.writes += of.Units
		}
	}
	return u
}
