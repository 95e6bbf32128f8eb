package httpapi_test

import (
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
)

// file requests a file of the dashboard; name "" is the page.
func (a api) file(t testing.TB, name string, change ...func(*events.APIGatewayV2HTTPRequest)) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event("GET", "/dashboard", "192.0.2.1", "")
	if name != "" {
		ev.RawPath += "/" + name
	}
	for _, c := range change {
		c(&ev)
	}
	return a.invoke(t, "dashboard", ev)
}

// rowSample returns the sample event of the row's function, changed to match the row,
// because the dashboard's function has several rows.
func rowSample(t *testing.T, route httpapi.Route) events.APIGatewayV2HTTPRequest {
	t.Helper()
	ev := sample(t, route.Name)
	if route.Name != "dashboard" || route.Path == "/dashboard" {
		return ev
	}
	ev.RequestContext.HTTP.Method, ev.RawPath = route.Method, strings.ReplaceAll(route.Path, "{proxy+}", "app.js")
	if route.Method == http.MethodPost {
		ev.Body, ev.Headers["content-type"] = `{"key":"x"}`, "application/json"
	}
	return ev
}

func TestEveryFileOfTheDashboardIsServed(t *testing.T) {
	a := newAPI(t)
	etags := make(map[string]string)
	err := fs.WalkDir(dashboard.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(dashboard.Files(), name)
		if err != nil {
			return err
		}
		resp := a.file(t, name)
		if resp.StatusCode != 200 || resp.Body != string(body) {
			t.Errorf("%s: %d with %d bytes, want %d", name, resp.StatusCode, len(resp.Body), len(body))
		}
		for header, want := range map[string]string{
			"Cache-Control":           "no-cache",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"X-RateLimit-Limit":       "200",
			"Content-Security-Policy": "",
		} {
			if got := resp.Headers[header]; got == "" || want != "" && got != want {
				t.Errorf("%s: %s: %q, want %q", name, header, got, want)
			}
		}
		policy := resp.Headers["Content-Security-Policy"]
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", name, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, ":") {
			t.Errorf("%s: the policy %q allows more than the page's own files", name, policy)
		}
		etag := resp.Headers["Etag"]
		if other, taken := etags[etag]; taken || len(etag) < 10 {
			t.Errorf("%s has the ETag %s, and so has %s", name, etag, other)
		}
		etags[etag] = name
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if page := a.file(t, ""); page.Headers["Content-Type"] != "text/html; charset=utf-8" || page.Body != a.file(t, "index.html").Body {
		t.Errorf("the page: %v", page.Headers)
	}
	if script := a.file(t, "app.js"); script.Headers["Content-Type"] != "text/javascript; charset=utf-8" {
		t.Errorf("its script: %v", script.Headers)
	}
}

func TestAFileThatTheBrowserHasIsNotSentAgain(t *testing.T) {
	a := newAPI(t)
	etag := a.file(t, "app.js").Headers["Etag"]
	for header, status := range map[string]int{
		etag:               http.StatusNotModified,
		"W/" + etag:        http.StatusNotModified,
		`"other", ` + etag: http.StatusNotModified,
		`"other"`:          http.StatusOK,
		"":                 http.StatusOK,
	} {
		resp := a.file(t, "app.js", func(ev *events.APIGatewayV2HTTPRequest) { ev.Headers["if-none-match"] = header })
		if resp.StatusCode != status || (resp.Body == "") != (status == http.StatusNotModified) || resp.Headers["Etag"] != etag {
			t.Errorf("If-None-Match: %s: %d, %d bytes, %v", header, resp.StatusCode, len(resp.Body), resp.Headers)
		}
	}
	if resp := a.file(t, "", func(ev *events.APIGatewayV2HTTPRequest) {
		ev.Headers["if-none-match"] = a.file(t, "").Headers["Etag"]
	}); resp.StatusCode != http.StatusNotModified {
		t.Errorf("the page: %d", resp.StatusCode)
	}
}

func TestAMissingFileOfTheDashboardIs404(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"nothing.js", "app", "APP.JS", "app.js/", "./app.js", "../page/app.js", "..%2fpage%2fapp.js", "/app.js", "dashboard.go", "a%00.js", "%25zz.js"} {
		if resp := a.file(t, name); resp.StatusCode != http.StatusNotFound || !strings.Contains(resp.Body, `"code":"no_such_route"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Body)
		}
	}
}

func TestMethodsOfTheDashboard(t *testing.T) {
	a := newAPI(t)
	for path, allow := range map[string]string{"/dashboard": "GET, HEAD", "/dashboard/app.js": "GET, HEAD", "/dashboard/a/b": "GET, HEAD", "/dashboard/session": "POST, DELETE", "/usage": "GET, HEAD", "/dashboard/": "", "/dashboards": ""} {
		resp := a.invoke(t, "not-found", lambdatest.Event("PATCH", path, "192.0.2.1", ""))
		if resp.Headers["Allow"] != allow || (resp.StatusCode == 405) != (allow != "") {
			t.Errorf("%s: %d, Allow: %s", path, resp.StatusCode, resp.Headers["Allow"])
		}
	}
}
