package functions_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
)

// The units of EntitiesTable and its indexes that a request takes, and its calls, for entities
// of at most 1 KB as stored.
func TestUnitsOfRequestsThatWriteEntities(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"))
	instances := make(map[string]*lambdatest.Instance)
	for _, function := range []string{"create-entity", "update-entity", "delete-entity", "upsert-entities"} {
		instances[function] = d.start(t, function, 1)[0]
	}
	// With the name, the keys and the other attributes, the item has a little less than 1 KB.
	attributes := `{"note":"` + strings.Repeat("x", 700) + `"}`
	var hundred []string
	for i := range 100 {
		hundred = append(hundred, fmt.Sprintf(`{"id":"e-%02d","type":"person","attributes":%s}`, i, attributes))
	}
	create := `{"id":"ada","type":"person","attributes":` + attributes + `}`
	for _, step := range []struct {
		function, body string
		status         int
		want           string // calls of each operation on EntitiesTable and their units
	}{
		{"create-entity", create, 201, "UpdateItem 1 3"},
		{"update-entity", `{"id":"ada","attributes":{"n":1}}`, 200, "GetItem 1 1, UpdateItem 1 4"},
		{"delete-entity", `{"id":"ada"}`, 200, "UpdateItem 1 4"},
		{"create-entity", create, 201, "UpdateItem 1 4"}, // over a tombstone
		{"delete-entity", `{"id":"ada","events":true}`, 202, "UpdateItem 1 4"},
		{"upsert-entities", `{"entities":[` + strings.Join(hundred, ",") + `]}`, 201, "BatchGetItem 1 0, UpdateItem 100 300"}, // DynamoDB takes a unit for each item that does not exist, DynamoDB Local none
		{"upsert-entities", `{"entities":[` + strings.Join(hundred, ",") + `]}`, 200, "BatchGetItem 1 100"},
	} {
		before := proxy.Usage()
		path := "/" + strings.ReplaceAll(step.function, "-", "_")
		invoke(t, instances[step.function], lambdatest.Event("POST", path, "192.0.2.1", step.body), step.status)
		after := proxy.Usage()
		var got []string
		for _, operation := range []string{"BatchGetItem", "GetItem", "PutItem", "TransactWriteItems", "UpdateItem"} {
			calls, units := 0, 0.0
			for _, table := range []string{d.entities, ""} { // the proxy does not know the table of the call of a batch
				call := dynamoproxy.Call{Operation: operation, Table: table}
				calls, units = calls+after[call].Calls-before[call].Calls, units+after[call].Units-before[call].Units
			}
			if calls > 0 {
				got = append(got, fmt.Sprintf("%s %d %g", operation, calls, units))
			}
		}
		if strings.Join(got, ", ") != step.want {
			t.Errorf("%s %.60s: %q, want %q", step.function, step.body, got, step.want)
		}
	}
}
