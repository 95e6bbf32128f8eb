package localserver

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	const app, methods, headers = "https://app.example.com", "GET,POST,DELETE", "authorization,content-type,content-encoding,if-match"
	for name, tt := range map[string]struct {
		origins, origin, method string
		allow, methods, headers string
		exposes                 string
	}{
		"off":                           {"", app, "GET", "", "", "", ""},
		"a page of an origin":           {app, app, "GET", app, "", "", "retry-after"},
		"one of two":                    {"http://localhost:5173, " + app, app, "POST", app, "", "", "ratelimit-policy"},
		"another origin":                {app, "https://evil.example.com", "GET", "", "", "", ""},
		"another port":                  {app, app + ":8443", "GET", "", "", "", ""},
		"an origin that begins like it": {app, app + ".evil.com", "GET", "", "", "", ""},
		"a sandboxed page":              {app, "null", "GET", "", "", "", ""},
		"all":                           {"*", "https://evil.example.com", "GET", "*", "", "", "etag"},
		"no page":                       {app, "", "GET", "", "", "", ""},
		"a browser asks first":          {app, app, "OPTIONS", app, methods, headers, ""},
		"a browser asks for another":    {app, "null", "OPTIONS", "", "", "", ""},
	} {
		h, err := withCORS(http.NotFoundHandler(), func(string) string { return tt.origins })
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(tt.method, "/entity", nil)
		r.Header.Set("Origin", tt.origin)
		if r.Header.Get("Origin") == "" {
			r.Header.Del("Origin")
		}
		if tt.method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header()
		if got.Get("Access-Control-Allow-Origin") != tt.allow || got.Get("Access-Control-Allow-Methods") != tt.methods || got.Get("Access-Control-Allow-Headers") != tt.headers || w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %v", name, w.Code, got)
		}
		if exposed := got.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, tt.exposes) || tt.exposes == "" && exposed != "" || got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v, want %q exposed", name, got, tt.exposes)
		}
		if varies := tt.origins != "" && tt.origins != "*"; (got.Get("Vary") == "Origin") != varies {
			t.Errorf("%s: Vary is %q", name, got.Get("Vary"))
		}
	}
}

// What depends on the origin and on the encoding must say both, or a cache mixes them up.
func TestAResponseVariesByOriginToo(t *testing.T) {
	t.Parallel()
	h, err := withCORS(openAPI(t), func(string) string { return "https://app.example.com" })
	if err != nil {
		t.Fatal(err)
	}
	r, w := httptest.NewRequest(http.MethodGet, "/openapi.yaml", http.NoBody), httptest.NewRecorder()
	r.Host = "localhost"
	h.ServeHTTP(w, r)
	if got := w.Header().Values("Vary"); w.Code != http.StatusOK || !slices.Equal(got, []string{"Origin", "Accept-Encoding"}) {
		t.Errorf("status %d, Vary is %q", w.Code, got)
	}
}

func TestOriginsThatNoBrowserSends(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"app.example.com", "https://app.example.com/", "https://App.example.com", "ftp://app.example.com", "https://", "https://a b", "https://a.example.com,,https://b.example.com", "null", "https://*.example.com", "https://user@app.example.com"} {
		if _, err := withCORS(http.NotFoundHandler(), func(string) string { return text }); err == nil || !strings.Contains(err.Error(), "CORS_ORIGINS") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
