package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
)

func TestGetOfTheRoot(t *testing.T) {
	a := newAPI(t)
	for accept, want := range map[string]int{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8": 302, "*/*": 404, "": 404, "application/json": 404} {
		ev := lambdatest.Event("GET", "/", "192.0.2.1", "")
		ev.Headers["accept"] = accept
		resp := a.invoke(t, "dashboard", ev)
		if resp.StatusCode != want {
			t.Errorf("Accept: %s: %d, want %d", accept, resp.StatusCode, want)
		}
		if want == 302 && resp.Headers["Location"] != "/dashboard" {
			t.Errorf("Location: %s", resp.Headers["Location"])
		}
		if want == 404 && !strings.Contains(resp.Body, "openapi.yaml") {
			t.Errorf("the 404 does not say where the API is described: %s", resp.Body)
		}
	}
}

func TestHEADCostsWhatGETCosts(t *testing.T) {
	a := newAPI(t)
	a.post(t, "create-entity", `{"id":"ada"}`)
	server := listen(t, a)
	for _, target := range []string{"/entity", "/entity/ada", "/openapi.yaml", "/health", "/dashboard"} {
		get := exchange(t, server, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n", false)
		head := exchange(t, server, "HEAD "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n", false)
		if get.StatusCode != http.StatusOK || head.StatusCode != http.StatusOK || head.Body != "" {
			t.Errorf("%s: GET %d, HEAD %d with %q", target, get.StatusCode, head.StatusCode, head.Body)
		}
		for _, name := range []string{"Content-Length", "Content-Type", "Etag"} {
			if get.Headers[name] != head.Headers[name] {
				t.Errorf("%s: %s is %q of GET and %q of HEAD", target, name, get.Headers[name], head.Headers[name])
			}
		}
	}
	// Two GETs and two HEADs have cost one record each.
	resp := exchange(t, server, "HEAD /entity/nobody HTTP/1.1\r\nHost: localhost\r\n\r\n", false)
	if resp.StatusCode != http.StatusNotFound || !strings.HasPrefix(resp.Headers["Ratelimit"], `"records";r=196;`) {
		t.Errorf("HEAD of an absent entity: %d, RateLimit: %s; want 404 with 196 records left", resp.StatusCode, resp.Headers["Ratelimit"])
	}
}
