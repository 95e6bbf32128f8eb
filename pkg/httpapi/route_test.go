package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
)

// The function of a path responds to wrong methods as the default route does: it needs no API key,
// touches no store, and charges the default route's counter.
func TestAWrongMethodGetsTheDefaultRoutesResponse(t *testing.T) {
	for _, r := range httpapi.Routes() {
		if r.Method == "" {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			g := newGuarded(t)
			g.stores = untouchable
			for _, tt := range []struct {
				route, method string
				status        int
				remaining     string
			}{
				{r.Name, "PATCH", http.StatusMethodNotAllowed, "199"},
				{r.Name, http.MethodOptions, http.StatusNoContent, "198"},
				{"not-found", "PATCH", http.StatusMethodNotAllowed, "197"},
			} {
				ev := rowSample(t, r)
				ev.RequestContext.HTTP.Method = tt.method
				resp := g.invoke(t, tt.route, "", ev)
				allow := resp.Headers["Allow"]
				if resp.StatusCode != tt.status || resp.Headers["X-RateLimit-Remaining"] != tt.remaining || resp.Headers["X-RateLimit-Limit"] != "200" || !strings.Contains(allow, r.Method) || strings.Contains(allow, "PATCH") {
					t.Errorf("%s: %d %v %s, want %d with %s left", tt.method, resp.StatusCode, resp.Headers, resp.Body, tt.status, tt.remaining)
				}
			}
			if log := g.log.String(); strings.Count(log, `"Route":"not-found"`) != 3 {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// A greedy path does not take the methods that another path lacks.
func TestAWrongMethodOnASessionIsNotAFile(t *testing.T) {
	a := newAPI(t)
	resp := a.invoke(t, "dashboard", lambdatest.Event("GET", "/dashboard/session", "192.0.2.1", ""))
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Headers["Allow"] != "POST, DELETE" {
		t.Errorf("%d %v", resp.StatusCode, resp.Headers)
	}
}

// API Gateway sends all requests to a path to one function.
func TestAPathHasOneFunction(t *testing.T) {
	names := make(map[string]string)
	for _, r := range httpapi.Routes() {
		if name, ok := names[r.Key()]; ok && name != r.Name {
			t.Errorf("%s has the functions %s and %s", r.Key(), name, r.Name)
		}
		names[r.Key()] = r.Name
	}
}
