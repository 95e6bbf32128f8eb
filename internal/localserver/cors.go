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
	answer  template.Cors
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
	c.answer, err = template.ParseCors(sluice.Template)
	return c, err
}

// isOrigin reports whether text is what a browser sends as Origin.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "*" || !strings.Contains(text, "*") && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && text == u.Scheme+"://"+strings.ToLower(u.Host)
}

func (c *cors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		c.allow(w.Header(), r, origin)
	}
	c.Handler.ServeHTTP(w, r)
}

func (c *cors) allow(h http.Header, r *http.Request, origin string) {
	all := slices.Contains(c.origins, "*")
	if all {
		origin = "*"
	} else {
		h.Add("Vary", "Origin")
	}
	if !all && !slices.Contains(c.origins, origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", strings.Join(c.answer.AllowMethods, ","))
		h.Set("Access-Control-Allow-Headers", strings.Join(c.answer.AllowHeaders, ","))
		h.Set("Access-Control-Max-Age", strconv.Itoa(c.answer.MaxAge))
		return
	}
	h.Set("Access-Control-Expose-Headers", strings.Join(c.answer.ExposeHeaders, ","))
}
