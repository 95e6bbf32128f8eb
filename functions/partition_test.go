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
// second), divided by 10 for small machines.
const (
	scaledLimit     = ratelimit.DefaultLimit / 10
	scaledPartition = 1000 / 10
)

// An address floods all routes of a scope. Each rule admits exactly as many requests as its
// limit allows. In each minute, the counters of all rules have the same partition key. No
// partition key receives more writes than a DynamoDB partition supports.
func TestPartitionsCarryEveryScope(t *testing.T) {
	const processes, fullWanted = 2, 2
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
			floods := flood(t, instances, demand{
				full: fullWanted,
				event: func(worker, _ int) events.APIGatewayV2HTTPRequest {
					return emptyEvent(routes[worker/processes], address)
				},
				// On a busy machine, some rules refuse nothing in some windows. Only windows in
				// which every rule has refused a request count as full.
				isFull: func(w window) bool {
					return !slices.ContainsFunc(w.byRule(routes, processes), func(o outcome) bool { return o.refused == 0 })
				},
				errors: []int{http.StatusBadRequest, http.StatusUnprocessableEntity},
			})
			for second, w := range floods {
				for rule, o := range w.byRule(routes, processes) {
					if o.admitted > scaledLimit || o.refused > 0 && o.admitted != scaledLimit {
						t.Errorf("window %d, %s: %d admitted with %d refused, want %d", second, routes[rule].Name, o.admitted, o.refused, scaledLimit)
					}
				}
			}
			t.Logf("%d routes, at most %d writes to a partition key in a second", len(routes), proxy.MostWrites())
		})
	}
}

// byRule returns the outcomes of each rule. Import routes share the imports limit. Every
// other route has a requests limit of its own.
func (w window) byRule(routes []httpapi.Route, processes int) []outcome {
	if routes[0].Class == ratelimit.Import {
		return []outcome{w.outcome}
	}
	rules := make([]outcome, len(routes))
	for worker, o := range w.byWorker {
		rules[worker/processes].admitted += o.admitted
		rules[worker/processes].refused += o.refused
	}
	return rules
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

// emptyEvent returns a request to the route r. The request creates no records, and the response
// contains no records.
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
