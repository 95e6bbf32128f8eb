package functions_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/api"
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

// Several processes charge several keys, and are refused. The list has what the responses said, for three kinds of
// calls, and reads only the keys and their ledgers.
func TestUsageOfAllKeysIsWhatWasCharged(t *testing.T) {
	t.Parallel()
	const keysOfPlan = 60 // in two calls of BatchGetItem
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	keys := d.guard(t)
	d.env = append(d.env, "SERVICE_NAME=sluice-test")
	d.setRow(t, "plan:pro", ratelimit.Limits{Imports: 900, Requests: 900, Quotas: ratelimit.Quotas{ImportsPerDay: 7, RecordsPerMonth: 40}})
	scopes := []access.Scope{access.Import, access.Export}
	var tokens []string
	for range keysOfPlan {
		tokens = append(tokens, keys.createLike(t, access.Key{Workspace: "mine", Plan: "pro", Scopes: scopes}))
	}
	byAddress := keys.create(t, "mine", scopes...)
	operator := keys.create(t, "mine", access.Dashboard, access.Operator)
	create, list := d.start(t, "create-event", 2), d.start(t, "list-event", 1)[0]
	day := ratelimit.Day.Start(ratelimit.WindowAt(time.Now()))
	want := make(map[string]api.IdentityUsage)
	var mu sync.Mutex
	refused := 0
	var wg sync.WaitGroup
	for n, token := range tokens[:6] {
		wg.Go(func() {
			u := api.IdentityUsage{Counted: identityOf(token)}
			for i := range 2 + 2*n {
				resp, err := create[i%2].Invoke(t.Context(), fromThree(token)(n, i))
				if err != nil {
					t.Error(err)
					return
				}
				if resp.StatusCode == http.StatusCreated {
					u.Imports++
				} else {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			want[u.Counted] = u
		})
	}
	wg.Wait()
	for n, token := range tokens[3:6] {
		u := want[identityOf(token)]
		for range n + 1 {
			resp := invoke(t, list, keyed(lambdatest.Event("GET", "/event?limit=3", "198.51.100.1", ""), token), http.StatusOK)
			u.Records += int64(strings.Count(resp.Body, `"created_at"`))
		}
		want[u.Counted] = u
	}
	invoke(t, list, keyed(lambdatest.Event("GET", "/event?limit=3", "198.51.100.1", ""), byAddress), http.StatusOK)

	usage := d.start(t, "usage", 1)[0]
	read := func(period string) api.UsageIdentities {
		t.Helper()
		resp := invoke(t, usage, keyed(lambdatest.Event("GET", "/usage?identities="+period, "192.0.2.1", ""), operator), http.StatusOK)
		var u api.Usage
		if err := json.Unmarshal([]byte(resp.Body), &u); err != nil {
			t.Fatal(err)
		}
		if q := u.Identities.RefusalsQuery; q == nil || q.Name != "sluice-test/Refused most" || q.URL != "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:logs-insights" {
			t.Errorf("%s: the saved query is %+v", period, q)
		}
		return *u.Identities
	}
	before := proxy.Usage()
	if all := read("minute"); all.Data != nil {
		t.Errorf("a minute: %+v", all.Data)
	}
	batches := dynamoproxy.Call{Operation: "BatchGetItem"} // the calls; their units are those of the table
	ledgers, scan := dynamoproxy.Call{Operation: "BatchGetItem", Table: d.counters}, dynamoproxy.Call{Operation: "Scan", Table: keys.table}
	if after := proxy.Usage(); after[batches] != before[batches] || after[scan] != before[scan] || after[dynamoproxy.Call{Operation: "Scan", Table: d.counters}].Calls > 0 {
		t.Errorf("a minute made the calls %v, before %v", after, before)
	}
	for _, period := range []string{"day", "month"} {
		before = proxy.Usage()
		all := read(period)
		after := proxy.Usage()
		calls := after[batches].Calls - before[batches].Calls
		t.Logf("%s: %d keys; ledgers %d calls, %v units, keys %d calls, %v units", period, len(all.Data), calls, after[ledgers].Units-before[ledgers].Units, after[scan].Calls-before[scan].Calls, after[scan].Units-before[scan].Units)
		if calls != 2 || after[ledgers].Units-before[ledgers].Units > keysOfPlan || after[scan].Calls-before[scan].Calls != 1 {
			t.Errorf("%s: calls %v, before %v", period, after, before)
		}
		if day != ratelimit.Day.Start(ratelimit.WindowAt(time.Now())) {
			return // a day has ended
		}
		if len(all.Data) != len(want) || !all.Complete {
			t.Errorf("%s: %+v, want %+v", period, all, want)
		}
		for _, u := range all.Data {
			w := want[u.Counted]
			share := float64(w.Imports) / 7
			if period == "month" {
				share = float64(w.Records) / 40
			}
			if u.Records != w.Records || u.Imports != w.Imports || *u.Share != share || u.Plan != "pro" || u.Workspace != "mine" {
				t.Errorf("%s: %+v, want %+v with the share %v", period, u, w, share)
			}
		}
	}
	if refused != (8-7)+(10-7)+(12-7) {
		t.Errorf("%d were refused", refused)
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
