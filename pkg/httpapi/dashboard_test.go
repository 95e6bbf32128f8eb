package httpapi_test

import (
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// file fetches one of the dashboard's files, or the page if name is empty.
func (a service) file(t testing.TB, name string, change ...func(*events.APIGatewayV2HTTPRequest)) events.APIGatewayV2HTTPResponse {
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

// dashboardFiles returns the dashboard's files as a service without API keys sends them.
func dashboardFiles() map[string]string {
	files := make(map[string]string)
	for name, text := range dashboard.Files() {
		files[name] = strings.Replace(string(text()), `data-keys="on"`, `data-keys="off"`, 1)
	}
	return files
}

// asset returns the path of an asset relative to /dashboard.
func asset(t testing.TB, name string) string {
	t.Helper()
	for file := range dashboard.Files() {
		if path.Base(file) == name {
			return file
		}
	}
	t.Fatalf("the dashboard has no asset %s", name)
	return ""
}

// rowSample returns a sample event for a route. The dashboard function has several routes, but
// only one sample.
func rowSample(t *testing.T, route httpapi.Route) events.APIGatewayV2HTTPRequest {
	t.Helper()
	ev := sample(t, route.Name)
	if route.Name != "dashboard" || route.Path == "/dashboard" {
		return ev
	}
	ev.RequestContext.HTTP.Method, ev.RawPath = route.Method, strings.ReplaceAll(route.Path, "{proxy+}", asset(t, "app.js"))
	if route.Method == http.MethodPost {
		ev.Body, ev.Headers["content-type"] = `{"key":"x"}`, "application/json"
	}
	return ev
}

func TestEveryFileOfTheDashboardIsServed(t *testing.T) {
	a := newAPI(t)
	etags := make(map[string]string)
	for name, body := range dashboardFiles() {
		if name == dashboard.Page {
			name = ""
		}
		resp := a.file(t, name)
		if resp.StatusCode != 200 || resp.Body != body {
			t.Errorf("%s: %d with %d bytes, want %d", name, resp.StatusCode, len(resp.Body), len(body))
		}
		cached := "public, max-age=31536000, immutable"
		if name == "" {
			cached = "no-cache"
		}
		for header, want := range map[string]string{
			"Cache-Control":           cached,
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"X-RateLimit-Limit":       "200",
			"Content-Security-Policy": "",
		} {
			if got := resp.Headers[header]; got == "" || want != "" && got != want {
				t.Errorf("%s: %s: %q, want %q", name, header, got, want)
			}
		}
		checkPolicy(t, name, resp.Headers["Content-Security-Policy"])
		etag := resp.Headers["Etag"]
		if other, taken := etags[etag]; taken || len(etag) < 10 {
			t.Errorf("%s has the ETag %s, and so has %s", name, etag, other)
		}
		etags[etag] = name
	}
	if page := a.file(t, ""); page.Headers["Content-Type"] != "text/html; charset=utf-8" || len(page.Body) == 0 {
		t.Errorf("the page: %v", page.Headers)
	}
	if script := a.file(t, asset(t, "app.js")); script.Headers["Content-Type"] != "text/javascript; charset=utf-8" {
		t.Errorf("its script: %v", script.Headers)
	}
}

// checkPolicy fails the test if the policy allows more than the page's own files and WebAssembly.
func checkPolicy(t *testing.T, name, policy string) {
	t.Helper()
	const want = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types importer"
	if policy != want {
		t.Errorf("%s: the policy is %q, want %q", name, policy, want)
	}
}

// A first visit loads neither the importer nor administration. The page loads them when they are used.
func TestAFirstVisitTransfersLessThan80KB(t *testing.T) {
	a := newAPI(t)
	total := 0
	for name, text := range dashboardFiles() {
		switch path.Base(name) {
		case "importer.js", "importer.wasm.gz", "admin.js":
			continue
		case dashboard.Page:
			name = ""
		}
		resp := a.file(t, name, func(ev *events.APIGatewayV2HTTPRequest) { ev.Headers["accept-encoding"] = "gzip, br" })
		t.Logf("%s: %d bytes", name, len(resp.Body))
		total += len(resp.Body)
		if resp.Headers["Content-Encoding"] == "gzip" {
			resp.Body = decompressed(t, resp.Body)
		}
		if resp.Body != text {
			t.Errorf("%s: %d bytes, want %d", name, len(resp.Body), len(text))
		}
	}
	if total > 80_000 {
		t.Errorf("%d bytes", total)
	}
}

func TestAPageOfAnotherVersionGetsAssetsThatNoCacheKeeps(t *testing.T) {
	a := newAPI(t)
	own := asset(t, "app.js")
	other := strings.Repeat("0", len(path.Dir(own))) + "/app.js"
	resp := a.file(t, other)
	if resp.StatusCode != 200 || resp.Headers["Cache-Control"] != "no-store" || resp.Body != a.file(t, own).Body {
		t.Errorf("%s: %d, %v", other, resp.StatusCode, resp.Headers)
	}
}

func TestAFileThatTheBrowserHasIsNotSentAgain(t *testing.T) {
	a := newAPI(t)
	script := asset(t, "app.js")
	etag := a.file(t, script).Headers["Etag"]
	for header, status := range map[string]int{
		etag:               http.StatusNotModified,
		etag[len("W/"):]:   http.StatusNotModified,
		`"other", ` + etag: http.StatusNotModified,
		`"other"`:          http.StatusOK,
		"":                 http.StatusOK,
	} {
		resp := a.file(t, script, func(ev *events.APIGatewayV2HTTPRequest) { ev.Headers["if-none-match"] = header })
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
	version := path.Dir(asset(t, "app.js"))
	for _, name := range []string{version, version + "/index.html", version + "/nothing.js", version + "/app", version + "/../index.html", "current/app.js", strings.ToUpper(version) + "/app.JS", version + "/" + version + "/app.js",
		"index.html", "app.js", "nothing.js", "app", "APP.JS", "app.js/", "./app.js", "../page/app.js", "..%2fpage%2fapp.js", "/app.js", "dashboard.go", "a%00.js", "%25zz.js"} {
		if resp := a.file(t, name); resp.StatusCode != http.StatusNotFound || !strings.Contains(resp.Body, `"code":"no_such_route"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Body)
		}
	}
}

// Clients that are not browsers get problem+json.
func TestARefusedPageLoadsItselfAgain(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	a := newAPI(t)
	for range 200 {
		a.file(t, "")
	}
	for _, tt := range []struct{ path, query, accept, refresh string }{
		{"/dashboard", "", browser, "1; url=?retry=1"},
		{"/", "", browser, "1; url=?retry=1"},
		{"/dashboard", "kind=entity&type=%22%3E&retry=2", browser, "4; url=?kind=entity&retry=3&type=%22%3E"},
		{"/dashboard", "retry=5", browser, "32; url=?retry=6"},
		{"/dashboard", "retry=6", browser, ""},
		{"/dashboard", "retry=-1", browser, "1; url=?retry=1"},
		{"/dashboard", "retry=many", browser, "1; url=?retry=1"},
	} {
		resp := a.invoke(t, "dashboard", dashboardEvent(tt.path, tt.query, tt.accept))
		if resp.StatusCode != 429 || resp.Headers["Refresh"] != tt.refresh || resp.Headers["Content-Type"] != "text/html; charset=utf-8" ||
			resp.Headers["Retry-After"] != "1" || resp.Headers["X-RateLimit-Remaining"] != "0" || resp.Headers["Cache-Control"] != "no-store" || resp.Headers["Vary"] != "Accept" {
			t.Errorf("%s?%s: %d %v", tt.path, tt.query, resp.StatusCode, resp.Headers)
		}
		if again := strings.Contains(resp.Body, "Load this page again"); again != (tt.refresh == "") || !strings.HasPrefix(resp.Body, "<!doctype html>") {
			t.Errorf("%s?%s: %s", tt.path, tt.query, resp.Body)
		}
		checkPolicy(t, tt.path, resp.Headers["Content-Security-Policy"])
	}
	for _, tt := range []struct{ path, accept string }{
		{"/dashboard", "*/*"}, {"/dashboard", ""}, {"/dashboard", "application/json, text/html"}, {"/dashboard/" + asset(t, "app.js"), browser},
	} {
		resp := a.invoke(t, "dashboard", dashboardEvent(tt.path, "", tt.accept))
		if resp.StatusCode != 429 || code(t, resp) != "rate_limit_exceeded" || resp.Headers["Refresh"] != "" || resp.Headers["Content-Type"] != "application/problem+json" {
			t.Errorf("%s, Accept: %s: %d %v", tt.path, tt.accept, resp.StatusCode, resp.Headers)
		}
	}
}

func TestAPageWhoseLimitCannotBeCheckedLoadsItselfAgain(t *testing.T) {
	limiter, err := ratelimit.New(unreachable{}, ratelimit.Config{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	a := service{stores: newAPI(t).stores, limiter: limiter}
	resp := a.invoke(t, "dashboard", dashboardEvent("/dashboard", "", "text/html"))
	if resp.StatusCode != 503 || resp.Headers["Refresh"] != "1; url=?retry=1" || !strings.Contains(resp.Body, "not available") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Headers, resp.Body)
	}
}

func dashboardEvent(path, query, accept string) events.APIGatewayV2HTTPRequest {
	ev := lambdatest.Event("GET", path, "192.0.2.1", "")
	ev.RawQueryString = query
	if accept != "" {
		ev.Headers["accept"] = accept
	}
	return ev
}

func TestThePageLoadsVersionedAssetsByRelativeURLs(t *testing.T) {
	a := newAPI(t)
	found := regexp.MustCompile(`(?:href|src|data-[a-z]+)="(/|https?:)?dashboard/([^"]*)"`).FindAllStringSubmatch(a.file(t, "").Body, -1)
	loaded := make(map[string]bool)
	for _, m := range found {
		if m[1] != "" {
			t.Errorf("%s is not relative", m[0])
		}
		loaded[m[2]] = true
		if _, ok := dashboard.Files()[m[2]]; !ok {
			t.Errorf("the page loads %s, which is not one of its files", m[2])
		}
	}
	if strings.Contains(a.file(t, asset(t, "app.js")).Body, "import('./admin.js')") {
		loaded[asset(t, "admin.js")] = true
	}
	if len(loaded) != len(dashboard.Files())-1 || len(loaded) > 6 {
		t.Errorf("the page loads %v", loaded)
	}
}
