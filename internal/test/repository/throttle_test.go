package repository_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/test/templatetest"
	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/httpapi"
)

// resourceUnits holds read or write units by resource, such as "EntitiesTable read" or, for an
// index, "EntitiesTable/by_type read".
type resourceUnits map[string]float64

// pageUnits is how many read units the largest page takes: 200 records of 450 bytes, with
// eventually consistent reads (docs/cost.md).
const pageUnits = 10.5

// unitsOf gives the most units that a request to each function can consume, not counting the
// charge to the rate limit and the read of the API key. It assumes records of at most 1 KB,
// EventShards=1, and lists by id that skip no tombstones. A write in a transaction takes two units.
var unitsOf = map[string]resourceUnits{
	"list-entity":       {}, // see gatewayRoutes
	"list-entity-index": {"EntitiesTable read": 1},
	"get-entity":        {"EntitiesTable read": 1},
	"list-event":        {"EventsTable/by_position read": pageUnits, "EventsTable/by_entity read": pageUnits, "EventsTable/by_created_at read": pageUnits},
	"get-event":         {"EventsTable read": 1},
	"create-entity":     {"EntitiesTable write": 1, "EntitiesTable/by_type write": 1, "EntitiesTable/by_updated_at write": 2, "EntitiesTable/by_attribute_1 write": 2, "EntitiesTable/by_attribute_2 write": 2, "EntitiesTable/by_attribute_3 write": 2, "EntitiesTable/by_attribute_4 write": 2},
	"update-entity":     {"EntitiesTable read": 1, "EntitiesTable write": 1, "EntitiesTable/by_type write": 1, "EntitiesTable/by_updated_at write": 2, "EntitiesTable/by_attribute_1 write": 2, "EntitiesTable/by_attribute_2 write": 2, "EntitiesTable/by_attribute_3 write": 2, "EntitiesTable/by_attribute_4 write": 2},
	"delete-entity":     {"EntitiesTable write": 1, "EntitiesTable/by_type write": 1, "EntitiesTable/by_updated_at write": 2, "EntitiesTable/by_attribute_1 write": 1, "EntitiesTable/by_attribute_2 write": 1, "EntitiesTable/by_attribute_3 write": 1, "EntitiesTable/by_attribute_4 write": 1, "ErasureJobsTable read": 1, "ErasureJobsTable write": 1, "ErasureJobsTable/by_status write": 2},
	"upsert-entities":   {"EntitiesTable read": 100, "EntitiesTable write": 100, "EntitiesTable/by_type write": 100, "EntitiesTable/by_updated_at write": 200, "EntitiesTable/by_attribute_1 write": 200, "EntitiesTable/by_attribute_2 write": 200, "EntitiesTable/by_attribute_3 write": 200, "EntitiesTable/by_attribute_4 write": 200},
	"create-event":      {"EventsTable write": 1, "EventsTable/by_position write": 1, "EventsTable/by_entity write": 1, "EventsTable/by_created_at write": 1},
	"create-events":     {"EventsTable write": 100, "EventsTable/by_position write": 100, "EventsTable/by_entity write": 100, "EventsTable/by_created_at write": 100},
	"get-erasure-job":   {"ErasureJobsTable read": 1},
	"create-export-job": {"ExportJobsTable write": 4, "ExportJobsTable/by_position write": 1, "ExportJobsTable/by_status write": 1},
	"list-export-job":   {"ExportJobsTable/by_position read": 2 * pageUnits},
	"get-export-job":    {"ExportJobsTable read": 1},
	"cancel-export-job": {"ExportJobsTable read": 1, "ExportJobsTable write": 4, "ExportJobsTable/by_position write": 1, "ExportJobsTable/by_status write": 2},
	"usage":             {"CountersTable read": 22}, // checked by TestUsageCostsFewReadUnits
	"dashboard":         {"KeysTable read": 1},
	"health":            {"EntitiesTable read": 1, "EventsTable read": 1},
	"openapi":           {},
	"not-found":         {},
}

// batches lists the functions whose requests write up to 100 records. The maximum throughput of
// each table limits these writes. The routes' throttle does not: it would have to be so low that
// a single client without a key could use it up.
var batches = []string{"create-events", "upsert-entities"}

// connects gives the most write units of CountersTable that an instance of a function can consume
// when it starts. A function that is not listed can consume 1.
var connects = map[string]float64{"create-events": 10, "upsert-entities": 10, "usage": dynamo.UsageReaders}

// rowsUnits is how many read units a scan of a full LimitsTable takes (TestReadUnitsOfAList in
// package dynamo). Each instance scans the table when it starts.
const rowsUnits = 30

// Quotas of a new AWS account in a region. Sources: API Gateway Developer Guide, "Amazon API
// Gateway quotas"; Lambda Developer Guide, "Lambda quotas".
const (
	accountRate      = 10_000 // requests per second to all APIs
	accountBurst     = 5_000
	accountInstances = 1_000 // concurrent function instances
)

type apiRoute struct {
	key, function string
	rate, most    float64 // requests per second that the throttle admits: on average, and in the busiest second
	units         resourceUnits
}

// busiestSecond returns, for each resource, the most units that requests can consume in a
// second. In that second, a route admits its burst and its rate. The account's quota limits the
// requests to all routes; in the worst case, they go to the routes that take the most units.
func busiestSecond(routes []apiRoute, account float64) map[string]float64 {
	most := map[string]float64{"LimitsTable read": accountInstances * rowsUnits}
	add := func(resource string, admitted float64, units func(apiRoute) float64) {
		sorted := slices.SortedFunc(slices.Values(routes), func(a, b apiRoute) int { return cmp.Compare(units(b), units(a)) })
		for _, r := range sorted {
			n := min(r.most, admitted)
			most[resource] += n * units(r)
			admitted -= n
		}
	}
	resources := map[string]bool{"CountersTable write": true}
	for _, r := range routes {
		for resource := range r.units {
			resources[resource] = true
		}
	}
	for resource := range resources {
		add(resource, account, func(r apiRoute) float64 { return r.units[resource] })
	}
	add("CountersTable write", account, func(apiRoute) float64 { return 1 }) // each request is charged to its rate limit
	add("CountersTable write", accountInstances, func(r apiRoute) float64 { return max(1, connects[r.function]) })
	return most
}

// gatewayRoutes returns the routes of a rendered template, with their throttles.
func gatewayRoutes(t *testing.T, r rendered) (routes []apiRoute) {
	t.Helper()
	stage := r.Resolved.Resources["ApiApiGatewayDefaultStage"].Properties
	limit := func(settings any, name string) float64 {
		n, err := strconv.ParseFloat(fmt.Sprint(valueAt(settings, "Throttling"+name+"Limit")), 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	guarded := make(map[string]bool) // function → whether its route requires an API key
	for _, route := range httpapi.Routes() {
		guarded[route.Name] = route.Scope != access.Public
	}
	for _, f := range templatetest.Functions(t) {
		for _, route := range f.Routes {
			units, known := unitsOf[f.Name]
			if !known {
				t.Fatalf("unitsOf does not say what a request to %s takes", f.Name)
			}
			if slices.Contains(batches, f.Name) || f.Name == "list-entity" { // list-entity may find 200 entities and read each by id
				units = nil
			}
			if guarded[f.Name] {
				units = maps.Clone(units)
				if units == nil {
					units = make(resourceUnits)
				}
				units["KeysTable read"]++
			}
			settings := valueAt(stage, "DefaultRouteSettings")
			rate, burst := limit(settings, "Rate"), limit(settings, "Burst")
			routes = append(routes, apiRoute{route.Key(), f.Name, rate, rate + burst, units})
		}
	}
	return routes
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

// Even with high account quotas, the requests that API Gateway admits never need more than a
// table's maximum throughput, above which DynamoDB throttles and clients get 503. The records
// of batches and of lists of entities are the exception (see gatewayRoutes).
func TestTablesTakeWhatAPIGatewayLetsThrough(t *testing.T) {
	t.Parallel()
	for name, r := range render(t, "dev", "prod") {
		for quotas, account := range map[string]float64{"a new account": accountRate + accountBurst, "very high quotas": 1e9} {
			for resource, n := range busiestSecond(gatewayRoutes(t, r), account) {
				t.Logf("%s, %s: %-32s %8.0f of %8.0f units", name, quotas, resource, n, maxThroughput(t, r, resource))
				if n > maxThroughput(t, r, resource) {
					t.Errorf("%s, %s: %s is asked for %.0f units in a second, its maximum throughput is %.0f: lower ApiRateLimit and ApiBurstLimit, or raise the maximum throughput", name, quotas, resource, n, maxThroughput(t, r, resource))
				}
			}
		}
	}
}
