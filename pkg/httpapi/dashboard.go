package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// dashboardPage is the file that GET /dashboard returns.
const dashboardPage = "index.html"

// dashboardTypes maps the extensions of the page's files to media types.
var dashboardTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// dashboardPolicy allows the page to load its own files and to call its own API,
// and nothing else: no inline script or style, no other origin, no frame around
// it, no form that leaves it, no text that becomes markup.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// getRoot sends a browser to the dashboard. Other clients get a 404 that names
// the API's description.
func getRoot(_ *service, r *request) (response, error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return response{}, &apiError{status: http.StatusNotFound, code: "no_such_route",
			detail: "there is no route GET /; openapi.yaml describes the API, and dashboard is its web page"}
	}
	header := http.Header{"Location": {path.Join("/", requestPath(r.Request), "dashboard")}, "Vary": {"Accept"}}
	return response{status: http.StatusFound, header: header}, nil
}

// getDashboard returns the page or one of its assets. It ignores the query.
func getDashboard(s *service, r *request) (response, error) {
	name := r.PathValue("proxy")
	if name == "" {
		name = dashboardPage
	}
	contentType, known := dashboardTypes[path.Ext(name)]
	body, err := fs.ReadFile(s.stores.Dashboard, name)
	if !known || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return response{}, noSuchRoute(r.Method, r.URL.Path)
	}
	if err != nil {
		return response{}, fmt.Errorf("read %s: %w", name, err)
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
	out := response{status: http.StatusOK, raw: body, header: http.Header{
		"Content-Type": {contentType},
		"Etag":         {etag},
		// Files of two deployments must not be mixed, so browsers must revalidate.
		"Cache-Control":                {"no-cache"},
		"Content-Security-Policy":      {dashboardPolicy},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}}
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), etag) {
		out.status, out.raw = http.StatusNotModified, nil
	}
	return out, nil
}
