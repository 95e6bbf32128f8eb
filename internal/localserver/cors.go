package localserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/internal/template"
)

// cors lets web pages of other origins call a handler. It adds the headers that API Gateway adds in a
// deployment, which template.yaml defines. Requests count as always, a browser's OPTIONS requests
// too.
type cors struct {
	http.Handler
	origins []string // "*" for all
	headers template.Cors
}

// withCORS returns a handler for pages of the origins in CORS_ORIGINS, separated by commas. If the
// variable is empty, it returns h.
func withCORS(h http.Handler, getenv func(string) string) (http.Handler, error) {
	text := getenv("CORS_ORIGINS")
	if text == "" {
		return h, nil
	}
	c := &cors{Handler: h}
	for origin := range strings.SplitSeq(text, ",") {
		origin = strings.TrimSpace(origin)
		if !isOrigin(origin) {
			return nil, fmt.Errorf("CORS_ORIGINS: %q must be an origin such as https://app.example.com or http://localhost:5173, without a path, or * for all; separate origins by commas", origin)
		}
		c.origins = append(c.origins, origin)
	}
	var err error
	c.headers, err = template.ParseCors(sluice.Template)
	return c, err
}

// isOrigin reports whether text is what a browser sends as Origin.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "*" || !strings.Contains(text, "*") && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && text == u.Scheme+"://"+strings.ToLower(u.Host)
}

func (c *cors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.allow(w.Header(), r)
	c.Handler.ServeHTTP(w, r)
}

func (c *cors) allow(h http.Header, r *http.Request) {
	all, origin := slices.Contains(c.origins, "*"), r.Header.Get("Origin")
	if !all {
		h.Add("Vary", "Origin") // also without Origin: a cache must not give that response to a page
	}
	if origin == "" || !all && !slices.Contains(c.origins, origin) {
		return
	}
	if all {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", strings.Join(c.headers.AllowMethods, ","))
		h.Set("Access-Control-Allow-Headers", strings.Join(c.headers.AllowHeaders, ","))
		h.Set("Access-Control-Max-Age", strconv.Itoa(c.headers.MaxAge))
		return
	}
	h.Set("Access-Control-Expose-Headers", strings.Join(c.headers.ExposeHeaders, ","))
}
