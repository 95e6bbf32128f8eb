package functions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/index"
)

// unitsOf describes a request's calls to EntitiesTable and EventsTable, and their units.
func (d deployment) unitsOf(t *testing.T, proxy *dynamoproxy.Proxy, instance *lambdatest.Instance, event events.APIGatewayV2HTTPRequest, status int) string {
	t.Helper()
	before := proxy.Usage()
	invoke(t, instance, event, status)
	after := proxy.Usage()
	var got []string
	for _, operation := range []string{"BatchGetItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"} {
		calls, units := 0, 0.0
		for _, table := range []string{d.entities, d.events, ""} { // the proxy does not know the table of a batch call
			call := dynamoproxy.Call{Operation: operation, Table: table}
			calls, units = calls+after[call].Calls-before[call].Calls, units+after[call].Units-before[call].Units
		}
		if calls > 0 {
			got = append(got, fmt.Sprintf("%s %d %g", operation, calls, units))
		}
	}
	return strings.Join(got, ", ")
}

// index declares indexes, whose attributes are joined by "+", that are ready for queries.
func (d deployment) index(t *testing.T, workspace, typ string, indexes ...string) {
	t.Helper()
	declarations, err := dynamo.NewIndexes(dynamolocal.Client(t), d.entities)
	if err != nil {
		t.Fatal(err)
	}
	for i, attributes := range indexes {
		declared := index.Declaration{Workspace: workspace, Type: typ, Place: i + 1, State: index.Ready}
		for j, name := range strings.Split(attributes, "+") {
			declared.Fields[j] = index.Field{Name: name, ValueType: index.Text}
		}
		if _, err := declarations.Put(t.Context(), declared); err != nil {
			t.Fatal(err)
		}
	}
}

// An index adds a unit to a creation, two to a change of a value, and none to other updates, however
// many attributes it covers. docs/find.md has these figures.
func TestUnitsOfIndexedAttributes(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"))
	d.index(t, "default", "one", "a")
	d.index(t, "default", "four", "a", "b", "c", "d")
	d.index(t, "default", "both", "a+b")
	instances := make(map[string]*lambdatest.Instance)
	for _, function := range []string{"create-entity", "update-entity", "delete-entity", "upsert-entities", "list-entity"} {
		instances[function] = d.start(t, function, 1)[0]
	}
	const attributes = `"attributes":{"a":"1","b":"1","c":"1","d":"1","e":"1"}`
	var page, both, tombstones []string
	for i := range 50 {
		both = append(both, fmt.Sprintf(`{"id":"b-%02d","type":"both","attributes":{"a":"same","b":"%02[1]d"}}`, i))
		tombstones = append(tombstones, fmt.Sprintf(`{"id":"e-%02d","deleted":true}`, i))
		page = append(page, fmt.Sprintf(`{"id":"e-%02d","type":"one","attributes":{"a":"same"}}`, i))
	}
	for _, step := range []struct {
		function, request string
		status            int
		want              string
	}{
		{"create-entity", `{"id":"zero","type":"zero",` + attributes + `}`, 201, "UpdateItem 1 3"},
		{"create-entity", `{"id":"one","type":"one",` + attributes + `}`, 201, "UpdateItem 1 4"},
		{"create-entity", `{"id":"four","type":"four",` + attributes + `}`, 201, "UpdateItem 1 7"},
		{"create-entity", `{"id":"both","type":"both",` + attributes + `}`, 201, "UpdateItem 1 4"},
		{"update-entity", `{"id":"both","attributes":{"b":"2"}}`, 200, "GetItem 1 1, UpdateItem 1 6"},
		{"list-entity", "/entity?type=both&attributes.a=1&attributes.b[gte]=1", 200, "BatchGetItem 1 1, Query 1 0.5"},
		{"upsert-entities", `{"entities":[` + strings.Join(both, ",") + `]}`, 201, "BatchGetItem 1 0, UpdateItem 50 200"},
		{"list-entity", "/entity?type=both&attributes.a=same&attributes.b[gte]=0", 200, "BatchGetItem 1 50, Query 1 0.5"},
		{"update-entity", `{"id":"four","attributes":{"e":"2"}}`, 200, "GetItem 1 1, UpdateItem 1 4"},
		{"update-entity", `{"id":"four","attributes":{"a":"2"}}`, 200, "GetItem 1 1, UpdateItem 1 6"},
		{"delete-entity", `{"id":"four"}`, 200, "UpdateItem 1 8"},
		{"list-entity", "/entity?type=one&attributes.a=1", 200, "BatchGetItem 1 1, Query 1 0.5"},
		{"upsert-entities", `{"entities":[` + strings.Join(page, ",") + `]}`, 201, "BatchGetItem 1 0, UpdateItem 50 200"},
		{"list-entity", "/entity?type=one&attributes.a=same", 200, "BatchGetItem 1 50, Query 1 0.5"},
		{"upsert-entities", `{"entities":[` + strings.Join(tombstones, ",") + `]}`, 200, "BatchGetItem 1 50, UpdateItem 50 250"},
		{"upsert-entities", `{"entities":[` + strings.Join(tombstones, ",") + `]}`, 200, "BatchGetItem 1 50"},
	} {
		method, path, body := "POST", "/"+strings.ReplaceAll(step.function, "-", "_"), step.request
		if step.function == "list-entity" {
			method, path, body = "GET", step.request, ""
		}
		if got := d.unitsOf(t, proxy, instances[step.function], lambdatest.Event(method, path, "192.0.2.1", body), step.status); got != step.want {
			t.Errorf("%s %.60s: %q, want %q", step.function, step.request, got, step.want)
		}
	}
}

// The index by name adds a unit to an event, and a list of 50 costs the same with it as the list of
// all. docs/find.md has these figures.
func TestUnitsOfEventsByName(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	for indexed, want := range map[bool][]string{
		false: {"PutItem 1 3", "Query 1 1.5"},
		true:  {"PutItem 1 4", "Query 1 1.5", "Query 1 1.5"},
	} {
		d := deploy(t, proxy.URL)
		if indexed {
			d.index(t, "default", "", "name")
		}
		instance := func(function string) *lambdatest.Instance { return d.start(t, function, 1)[0] }
		var batch []string
		for i := range 50 {
			batch = append(batch, fmt.Sprintf(`{"id":"b-%02d","name":"paid"}`, i))
		}
		got := []string{d.unitsOf(t, proxy, instance("create-event"), lambdatest.Event("POST", "/create_event", "192.0.2.1", `{"id":"one","name":"opened"}`), 201)}
		invoke(t, instance("create-events"), lambdatest.Event("POST", "/create_events", "192.0.2.1", `{"events":[`+strings.Join(batch, ",")+`]}`), 201)
		list := instance("list-event")
		got = append(got, d.unitsOf(t, proxy, list, lambdatest.Event("GET", "/event?limit=50", "192.0.2.1", ""), 200))
		if indexed {
			got = append(got, d.unitsOf(t, proxy, list, lambdatest.Event("GET", "/event?name=paid&limit=50", "192.0.2.1", ""), 200))
		}
		if !slices.Equal(got, want) {
			t.Errorf("indexed %v: %q, want %q", indexed, got, want)
		}
	}
}
