package functions_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// The limits of the service (200 per second) and of a DynamoDB partition (1,000 per
// second), divided by 5 for small machines.
const (
	scaledLimit     = ratelimit.DefaultLimit / 5
	scaledPartition = 1000 / 5
)

// If an address floods all routes of a scope, exactly its limits are admitted. The partition
// key of its counters never receives more writes than a DynamoDB partition supports.
func TestPartitionsCarryEveryScope(t *testing.T) {
	// On a busy machine, some windows have too few requests to a route to reach its limit.
	const processes, windows, fullWanted = 2, 9, 2
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "EXPORT_JOBS_TABLE="+dynamolocal.Table(t, "ExportJobsTable"), "EXPORT_JOBS_BUCKET=exports", "ERASURE_JOBS_TABLE="+dynamolocal.Table(t, "ErasureJobsTable"),
		fmt.Sprintf("LIMIT_RECORDS=%d", scaledLimit), fmt.Sprintf("LIMIT_IMPORTS=%d", scaledLimit), fmt.Sprintf("LIMIT_REQUESTS=%d", scaledLimit))
	proxy.ThrottlePartitions(scaledPartition)
	scopes, routes := routesByScope()
	for n, scope := range scopes {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			routes, address := routes[scope], fmt.Sprintf("198.51.100.%d", n+1)
			var instances []*lambdatest.Instance
			for _, r := range routes {
				instances = append(instances, d.start(t, r.Name, processes)...)
			}
			floods := flood(t, instances, min(windows, 3*len(routes)),
				func(worker, _ int) events.APIGatewayV2HTTPRequest {
					return emptyEvent(routes[worker/processes], address)
				},
				func(events.APIGatewayV2HTTPResponse) int64 { return 0 }, http.StatusBadRequest, http.StatusUnprocessableEntity)
			full := 0
			for second, w := range floods {
				full += checkFullWindow(t, second, w, routes, processes)
			}
			if full < fullWanted {
				t.Errorf("only %d windows were full", full)
			}
			t.Logf("%d routes, %d full windows, at most %d writes to a partition key in a second", len(routes), full, proxy.MostWrites())
		})
	}
}

// routesByScope returns all scopes, and for each scope one route of each function.
func routesByScope() (scopes []ratelimit.Scope, routes map[ratelimit.Scope][]httpapi.Route) {
	routes = make(map[ratelimit.Scope][]httpapi.Route)
	for _, r := range httpapi.Routes() {
		scope := ratelimit.Route{Name: r.Name, Class: r.Class}.Scope()
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
		if !slices.ContainsFunc(routes[scope], func(other httpapi.Route) bool { return other.Name == r.Name }) {
			routes[scope] = append(routes[scope], r)
		}
	}
	return scopes, routes
}

// emptyEvent returns a request to a route that neither returns nor creates records.
func emptyEvent(r httpapi.Route, address string) events.APIGatewayV2HTTPRequest {
	method, path, body := r.Method, r.Path, ""
	switch {
	case r.Method == "":
		method, path = "GET", "/nowhere"
	case r.Method == "POST":
		body = "[]" // not an object
	case r.Name == "usage":
		path += "?address=none"
	}
	ev := lambdatest.Event(method, strings.Replace(path, "{id}", "none", 1), address, body)
	if strings.Contains(path, "{id}") {
		ev.PathParameters = map[string]string{"id": "none"}
	}
	return ev
}

// checkFullWindow returns 1 if every rule refused a request in a window. In that case, it
// checks how many requests the window admitted. Import routes share the limit of imports.
// Every other route has its own limit of requests.
func checkFullWindow(t *testing.T, second ratelimit.Window, w window, routes []httpapi.Route, processes int) (full int) {
	t.Helper()
	if routes[0].Class == ratelimit.Import {
		return checkOutcome(t, second, "all import routes", w.outcome)
	}
	full = 1
	for i, r := range routes {
		var sum outcome
		for worker := i * processes; worker < (i+1)*processes; worker++ {
			sum.admitted += w.byWorker[worker].admitted
			sum.refused += w.byWorker[worker].refused
		}
		full = min(full, checkOutcome(t, second, r.Name, sum))
	}
	return full
}

// checkOutcome returns 1 if a request was refused. In that case it checks that
// exactly the limit was admitted.
func checkOutcome(t *testing.T, second ratelimit.Window, name string, o outcome) (full int) {
	t.Helper()
	if o.refused > 0 {
		full = 1
	}
	if o.admitted > scaledLimit || full == 1 && o.admitted != scaledLimit {
		t.Errorf("window %d, %s: %d admitted with %d refused, want %d", second, name, o.admitted, o.refused, scaledLimit)
	}
	return full
}
