package functions_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// busyUnits is how many more read units than for an idle address GET /usage may need for one that
// used every route in each of the last 60 seconds.
const busyUnits = 9

func TestUsageCostsFewReadUnits(t *testing.T) {
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	function := d.start(t, "usage", 1)[0]
	query := dynamoproxy.Call{Operation: "Query", Table: d.counters}
	units := func(address string) float64 {
		t.Helper()
		before := proxy.Usage()[query]
		resp := invoke(t, function, lambdatest.Event("GET", "/usage?address="+address, "192.0.2.1", ""), http.StatusOK)
		if n := strings.Count(resp.Body, `"second":`); n != ratelimit.UsageWindows {
			t.Errorf("%d seconds: %s", n, resp.Body)
		}
		after := proxy.Usage()[query]
		units := after.Units - before.Units + float64(after.Empty-before.Empty)/2
		t.Logf("%s: %v units, %d queries, %d of them empty", address, units, after.Calls-before.Calls, after.Empty-before.Empty)
		return units
	}
	groups := make(map[ratelimit.Group]bool)
	for _, r := range httpapi.Routes() {
		groups[ratelimit.Route{Name: r.Name, Class: r.Class}.Group()] = true
	}
	idle := len(groups) // two queries for each, as 60 seconds are in two partitions; one that finds nothing takes half a unit
	if n := units("2001:db8:1111:1111::"); n > float64(idle) {
		t.Errorf("an idle address costs %v read units, want %d at most", n, idle)
	}
	busy := "2001:db8:2222:2222::"
	useEveryRoute(t, d, busy+"/64")
	if n := units(busy); n > float64(idle+busyUnits) {
		t.Errorf("a busy address costs %v read units, want %d at most", n, idle+busyUnits)
	}
}

// useEveryRoute charges 200 records, 200 imports, and 200 requests to each route, in each of the
// last 60 seconds and in each of the next ten.
func useEveryRoute(t *testing.T, d deployment, address string) {
	t.Helper()
	store, err := dynamo.NewCounters(dynamolocal.Client(t), d.counters)
	if err != nil {
		t.Fatal(err)
	}
	cost := func(rule, counter string) ratelimit.Cost {
		return ratelimit.Cost{Rule: ratelimit.Rule{Name: rule, Counter: counter, Limit: ratelimit.NoLimit}, Amount: 200}
	}
	costs := make(map[ratelimit.Group][]ratelimit.Cost)
	for _, r := range httpapi.Routes() {
		group := ratelimit.Route{Name: r.Name, Class: r.Class}.Group()
		if len(costs[group]) == 0 && r.Class == ratelimit.Export {
			costs[group] = append(costs[group], cost(ratelimit.RuleRecords, "records"))
		}
		if len(costs[group]) == 0 && r.Class == ratelimit.Import {
			costs[group] = append(costs[group], cost(ratelimit.RuleImports, "imports"))
		}
		if counter := "r_" + strings.ReplaceAll(r.Name, "-", "_"); r.Class != ratelimit.General || len(costs[group]) == 0 {
			costs[group] = append(costs[group], cost(ratelimit.RuleRequests, counter))
		}
	}
	now := ratelimit.WindowAt(time.Now())
	for w := now - ratelimit.Window(ratelimit.UsageWindows); w < now+10; w++ {
		for group, costs := range costs {
			if _, err := store.Charge(t.Context(), ratelimit.Key{Identity: address, Group: group, Window: w}, costs); err != nil {
				t.Fatal(err)
			}
		}
	}
}
