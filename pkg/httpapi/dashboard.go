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

// dashboardPage is the file that GET /dashboard shows.
const dashboardPage = "index.html"

// dashboardTypes are the media types of the page's files by extension.
var dashboardTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// dashboardPolicy lets the page load its own files and call its own API, and
// nothing else: no script or style within it, no other origin, no frame around
// it, no form that leaves it, no text that becomes markup.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// serveDashboard is the action of every route of the function.
func serveDashboard(h *Handler, r *request) (reply, error) {
	switch r.Method {
	case http.MethodPost:
		return signIn(h, r)
	case http.MethodDelete:
		return signOut(h, r)
	default:
		return getDashboard(h, r)
	}
}

// getDashboard shows the page or one of its files. Their query is not looked at.
func getDashboard(h *Handler, r *request) (reply, error) {
	name := r.pathParameter("proxy")
	if name == "" {
		name = dashboardPage
	}
	contentType, known := dashboardTypes[path.Ext(name)]
	body, err := fs.ReadFile(h.stores.Dashboard, name)
	if !known || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return reply{}, noSuchRoute(r.Method, r.URL.Path)
	}
	if err != nil {
		return reply{}, fmt.Errorf("read %s: %w", name, err)
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
	out := reply{status: http.StatusOK, encoded: body, header: http.Header{
		"Content-Type": {contentType},
		"Etag":         {etag},
		// Files of two deployments must not be mixed, so none is used unasked.
		"Cache-Control":                {"no-cache"},
		"Content-Security-Policy":      {dashboardPolicy},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}}
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), etag) {
		out.status, out.encoded = http.StatusNotModified, []byte{}
	}
	return out, nil
}
