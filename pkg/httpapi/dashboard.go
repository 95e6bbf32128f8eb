package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"sluice/pkg/ratelimit"
)

const dashboardPage = "index.html"

var dashboardTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".gz":   "application/gzip",
}

// dashboardPolicy is the Content-Security-Policy of the page and its web worker. It allows only
// the page's own files, WebAssembly among them, and calls to its own API: no inline script or
// style, no other origin, no frame around the page, no form target, and no conversion of text to
// markup. Browsers start a worker only from a URL of a Trusted Types policy; the page makes one
// policy of the only name, for one URL, so that no other script can.
const dashboardPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types importer"

// SetDashboard replaces the dashboard's files, such as when the importer has been built. The
// arguments are as in Stores.Dashboard.
func (a *API) SetDashboard(texts map[string]func() []byte) {
	files := make(map[string]*file)
	for name, text := range texts {
		if name == dashboardPage && a.service.AccessOff {
			page := bytes.Replace(text(), []byte(`data-keys="on"`), []byte(`data-keys="off"`), 1)
			text = func() []byte { return page }
		}
		files[name] = newFile(text)
	}
	a.service.dashboard.Store(&files)
}

// getRoot redirects browsers to the dashboard. Other clients get a 404 that refers them to
// openapi.yaml.
func getRoot(_ *service, r *request) (response, error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return response{}, &apiError{status: http.StatusNotFound, code: "no_such_route",
			detail: "there is no route GET /; openapi.yaml describes the API, and dashboard is its web page"}
	}
	header := http.Header{"Location": {path.Join("/", requestPath(r.Request), "dashboard")}, "Vary": {"Accept"}}
	return response{status: http.StatusFound, header: header}, nil
}

// getDashboard returns the page or an asset, and ignores the query.
func getDashboard(s *service, r *request) (response, error) {
	name := r.PathValue("proxy")
	files := *s.dashboard.Load()
	asset, cacheControl, ok := findAsset(files, name)
	switch {
	case name == "":
		name, asset, cacheControl = dashboardPage, files[dashboardPage], "no-cache"
	case !ok:
		return response{}, noSuchRoute(r.Method, r.URL.Path)
	}
	out := response{status: http.StatusOK, raw: asset.text(), file: asset, header: http.Header{
		"Content-Type":                 {dashboardTypes[path.Ext(name)]},
		"Etag":                         {asset.etag()},
		"Cache-Control":                {cacheControl},
		"Content-Security-Policy":      {dashboardPolicy},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}}
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), strings.TrimPrefix(asset.etag(), "W/")) {
		out.status, out.raw = http.StatusNotModified, nil
	}
	return out, nil
}

// findAsset returns one of the page's files and its Cache-Control. During a gradual deployment, a
// page of one version may request assets from an instance of the other version. The page then
// gets that instance's assets, which must not be cached.
func findAsset(files map[string]*file, name string) (asset *file, cacheControl string, ok bool) {
	if asset, ok = files[name]; ok && name != dashboardPage {
		return asset, "public, max-age=31536000, immutable", true
	}
	version, base, _ := strings.Cut(name, "/")
	for other, asset := range files {
		if otherVersion, otherBase, ok := strings.Cut(other, "/"); ok && otherBase == base && len(otherVersion) == len(version) {
			return asset, "no-store", true
		}
	}
	return nil, "", false
}

// maxReloads is how many times a browser automatically reloads a refused page.
const maxReloads = 6

// maxQuery is the length, in bytes, up to which a query is kept when the page is reloaded.
const maxQuery = 2 << 10

// isPage reports whether a browser requests the dashboard page, or / (which redirects to it).
func (r *request) isPage() bool {
	return (r.route.Path == "/dashboard" || r.route.Path == "/") && strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}

// retryPage turns a refusal into a page that the browser reloads after 1 second, then 2, 4, and
// so on. The query parameter retry counts the reloads. The dashboard removes it from the URL.
func (r *request) retryPage(refusal response) response {
	title, advice := "The limit of this address is used up for the moment", "The dashboard will open automatically in a few seconds."
	if refusal.status != http.StatusTooManyRequests {
		title = "The service is not available for the moment"
	}
	refusal.header.Set("Content-Type", "text/html; charset=utf-8")
	refusal.header.Set("Content-Security-Policy", dashboardPolicy)
	refusal.header.Add("Vary", "Accept")
	attempt, _ := strconv.Atoi(r.query.Get("retry"))
	if attempt = max(attempt, 0); attempt < maxReloads {
		query := r.queryWith("retry", strconv.Itoa(attempt+1))
		if len(query) > maxQuery {
			query = "retry=" + strconv.Itoa(attempt+1)
		}
		refusal.header.Set("Refresh", fmt.Sprintf("%d; url=?%s", ratelimit.RetryAfter<<attempt, query))
	} else {
		advice = "Automatic reloading has stopped. Load this page again later."
	}
	refusal.raw = fmt.Appendf(nil, retryHTML, title, advice)
	return refusal
}

// retryHTML is a format string for a heading and a paragraph.
const retryHTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice dashboard</title>
<main>
<h1>%s</h1>
<p>%s</p>
</main>
</html>
`
