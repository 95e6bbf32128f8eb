package repository_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/template"
	"sluice/internal/test/templatetest"
	"sluice/pkg/httpapi"
)

// maxKeys is for how many route keys the defaults of ApiRateLimit, ApiBurstLimit and MaxWriteUnits
// leave room in CountersTable. There are fewer, so that a new route changes no default.
const maxKeys = 40

const (
	newInstances = 1_000 // in a second: a new account's quota of concurrent instances (Lambda Developer Guide, "Lambda quotas")
	connectUnits = 10    // the most write units of CountersTable that an instance consumes when it starts; see package bootstrap
	rowsUnits    = 30    // read units of a scan of a full LimitsTable, its blocks and its other rows, which an instance makes when it starts (TestReadUnitsOfAList in package dynamo)

	// Read units of EntitiesTable that an instance consumes when it starts and once a minute: half a
	// unit for the service's id, and one for the indexed attributes. Both are in one partition
	// each, which takes 3,000 units a second.
	startUnits = 1.5

	// The most read units that a query consumes: GET /usage (TestUsageCostsFewReadUnits). A page
	// of 200 records of 450 bytes takes 10.5 (docs/cost.md), and a page of jobs twice as many.
	queryUnits = 22
)

// isBatch reports whether requests to a function write up to 100 records. The maximum throughput of
// each table limits these writes. The routes' throttle does not: it would have to be so low that a
// single client without a key could use it up.
func isBatch(function string) bool {
	return slices.ContainsFunc(httpapi.Routes(), func(r httpapi.Route) bool { return r.Name == function && r.Batch() })
}

// unitsOf returns the most read and write units that a request to f can consume, not counting its
// charge, by resource, such as "EntitiesTable read" or, for an index, "EntitiesTable/by_type read".
// They follow from the permissions, each of which a request uses at most once, unless it is a batch
// or finds entities by an index. Records have at most 1 KB, there is one shard, and lists by id skip
// no tombstones. A write takes two units, because it may be in a transaction, and two of each index,
// because it may move the entry.
func unitsOf(t *testing.T, f templatetest.Function, tables []template.Table) map[string]float64 {
	t.Helper()
	units := make(map[string]float64)
	for _, g := range f.Grants {
		if strings.Contains(g.Resource, "/#") { // a partition that an instance reads once a minute; see startUnits
			continue
		}
		table, _, _ := strings.Cut(g.Resource, "/")
		resource := strings.Replace(g.Resource, "/index/", "/", 1)
		switch g.Action {
		case "dynamodb:GetItem":
			units[resource+" read"]++
		case "dynamodb:Query":
			units[resource+" read"] += queryUnits
		case "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem":
			if table == "CountersTable" || isBatch(f.Name) {
				continue
			}
			units[table+" write"] += 2
			for _, index := range indexesOf(tables, table) {
				units[table+"/"+index+" write"] += 2
			}
		case "dynamodb:BatchGetItem", "dynamodb:Scan", "dynamodb:ConditionCheckItem", "s3:DeleteObject", "s3:GetObject":
		default:
			t.Errorf("it is unknown what %s, of %s, takes", g.Action, f.LogicalID)
		}
	}
	return units
}

func indexesOf(tables []template.Table, table string) (names []string) {
	for _, t := range tables {
		for _, index := range t.GlobalSecondaryIndexes {
			if t.LogicalID == table {
				names = append(names, string(index.IndexName))
			}
		}
	}
	return names
}

// throttle returns how many requests a second API Gateway admits for each route key on average, and
// how many in the busiest second.
func throttle(t *testing.T, r rendered) (rate, most float64) {
	t.Helper()
	settings := valueAt(r.Resolved.Resources["ApiApiGatewayDefaultStage"].Properties, "DefaultRouteSettings")
	limit := func(name string) float64 {
		n, err := strconv.ParseFloat(fmt.Sprint(valueAt(settings, "Throttling"+name+"Limit")), 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return limit("Rate"), limit("Rate") + limit("Burst")
}

func maxThroughput(t *testing.T, r rendered, resource string) float64 {
	t.Helper()
	name, direction, _ := strings.Cut(resource, " ")
	table, index, _ := strings.Cut(name, "/")
	p := any(r.Resolved.Resources[table].Properties)
	indexes, _ := valueAt(p, "GlobalSecondaryIndexes").([]any)
	for _, i := range indexes {
		if valueAt(i, "IndexName") == index {
			p = i
		}
	}
	n, err := strconv.ParseFloat(fmt.Sprint(valueAt(p, "OnDemandThroughput", "Max"+strings.ToUpper(direction[:1])+direction[1:]+"RequestUnits")), 64)
	if err != nil {
		t.Fatalf("%s: %v", resource, err)
	}
	return n
}

// However high the account's quotas are, the requests that API Gateway admits never need more than
// a table's maximum throughput, above which DynamoDB throttles and clients get 503. The exceptions
// are the records of batches, and the entities that a list finds by an index.
func TestTablesTakeWhatAPIGatewayLetsThrough(t *testing.T) {
	t.Parallel()
	tables := parse(t)
	for name, r := range render(t, "dev", "prod") {
		_, most := throttle(t, r)
		needed := map[string]float64{
			"CountersTable write": maxKeys*most + newInstances*connectUnits,
			"LimitsTable read":    newInstances * rowsUnits,
			"EntitiesTable read":  newInstances * startUnits,
		}
		var keys float64
		for _, f := range templatetest.Functions(t) {
			if len(f.Routes) == 0 {
				continue
			}
			keys += float64(len(f.Routes))
			for resource, units := range unitsOf(t, f, tables) {
				needed[resource] += units * most * float64(len(f.Routes))
			}
		}
		if keys > maxKeys {
			t.Errorf("%s: there are %v route keys; CountersTable has room for %d", name, keys, maxKeys)
		}
		for resource, n := range needed {
			t.Logf("%s: %-32s %8.0f of %8.0f units", name, resource, n, maxThroughput(t, r, resource))
			if n > maxThroughput(t, r, resource) {
				t.Errorf("%s: %s is asked for %.0f units in a second, its maximum throughput is %.0f: lower ApiRateLimit and ApiBurstLimit, or raise the maximum throughput", name, resource, n, maxThroughput(t, r, resource))
			}
		}
	}
}
