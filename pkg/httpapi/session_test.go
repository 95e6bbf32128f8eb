package httpapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/httpapi"
)

// signIn signs in with a key, which may begin with "Bearer ".
func (g *guarded) signIn(t *testing.T, key string, header ...string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event("POST", "/dashboard/session", "192.0.2.1", fmt.Sprintf(`{"key":%q}`, strings.TrimPrefix(key, "Bearer ")))
	for i := 0; i < len(header); i += 2 {
		ev.Headers[header[i]] = header[i+1]
	}
	return g.invoke(t, "dashboard", "", ev)
}

func TestASessionOpensTheDashboardsRoutesUntilItEnds(t *testing.T) {
	g := newGuarded(t)
	key := g.key(t, "mine", access.Dashboard)
	text := strings.TrimPrefix(key, "Bearer ")
	for proto, want := range map[string]string{
		"https": "__Host-sluice_session=" + text + "; Path=/; HttpOnly; Secure; SameSite=Strict",
		"http":  "sluice_session=" + text + "; Path=/; HttpOnly; SameSite=Strict",
	} {
		resp := g.signIn(t, key, "x-forwarded-proto", proto, "sec-fetch-site", "same-origin")
		if resp.StatusCode != 204 || resp.Body != "" || !slices.Equal(resp.Cookies, []string{want}) {
			t.Errorf("%s: %d %s, cookies %q, want %q", proto, resp.StatusCode, resp.Body, resp.Cookies, want)
		}
	}
	if log := g.log.String(); strings.Contains(log, strings.Split(text, "_")[2]) || !strings.Contains(log, `"key_id":"`+strings.Split(text, "_")[1]+`"`) {
		t.Errorf("the log must say which key it was, and no more: %s", log)
	}

	// Over HTTPS, only the cookie with the prefix __Host- is valid, because a neighboring domain
	// could have set a cookie without that prefix.
	for _, tt := range []struct {
		proto, name string
		status      int
	}{
		{"http", "sluice_session", 200}, {"http", "__Host-sluice_session", 401},
		{"https", "__Host-sluice_session", 200}, {"https", "sluice_session", 401},
	} {
		ev := lambdatest.Event("GET", "/usage", "192.0.2.1", "")
		ev.Headers["x-forwarded-proto"] = tt.proto
		ev.Cookies = []string{tt.name + "=" + text}
		if resp := g.invoke(t, "usage", "", ev); resp.StatusCode != tt.status {
			t.Errorf("usage over %s with the cookie %s: %d %s", tt.proto, tt.name, resp.StatusCode, resp.Body)
		}
	}

	resp := g.invoke(t, "dashboard", "", lambdatest.Event("DELETE", "/dashboard/session", "192.0.2.1", ""))
	if want := "sluice_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"; resp.StatusCode != 204 || !slices.Equal(resp.Cookies, []string{want}) {
		t.Errorf("signing out: %d %s, cookies %q, want %q", resp.StatusCode, resp.Body, resp.Cookies, want)
	}
}

func TestARejectedSignInSetsNoCookie(t *testing.T) {
	g := newGuarded(t)
	good := g.key(t, "mine", access.Dashboard)
	for _, tt := range []struct {
		name, key string
		header    []string
		status    int
		code      string
	}{
		{"no key", "", nil, 401, "invalid_key"},
		{"a wrong secret", wrong(good), nil, 401, "invalid_key"},
		{"a key without the scope", g.key(t, "mine", access.Import, access.Export), nil, 403, "missing_scope"},
		{"a page of another site", good, []string{"sec-fetch-site", "cross-site"}, 403, "cross_origin_request"},
		{"a page of another origin", good, []string{"origin", "https://example.net"}, 403, "cross_origin_request"},
		{"a form", good, []string{"content-type", "text/plain"}, 415, "unsupported_media_type"},
	} {
		resp := g.signIn(t, tt.key, tt.header...)
		if resp.StatusCode != tt.status || code(t, resp) != tt.code || len(resp.Cookies) > 0 || resp.Headers["X-RateLimit-Remaining"] == "" {
			t.Errorf("%s: %d %s, cookies %q; want %d %s", tt.name, resp.StatusCode, resp.Body, resp.Cookies, tt.status, tt.code)
		}
	}
	ev := lambdatest.Event("DELETE", "/dashboard/session", "192.0.2.1", "")
	ev.Headers["sec-fetch-site"] = "cross-site"
	if resp := g.invoke(t, "dashboard", "", ev); resp.StatusCode != 403 || len(resp.Cookies) > 0 {
		t.Errorf("signing out from another site: %d %s, cookies %q", resp.StatusCode, resp.Body, resp.Cookies)
	}

	g = newGuarded(t)
	g.keys.err = errors.New("the cause")
	if resp := g.signIn(t, good); resp.StatusCode != 503 || code(t, resp) != "access_unavailable" {
		t.Errorf("while keys cannot be read: %d %s", resp.StatusCode, resp.Body)
	}
}

func TestSigningInSetsNoCookieWithoutKeys(t *testing.T) {
	a := newAPI(t)
	ev := lambdatest.Event("POST", "/dashboard/session", "192.0.2.1", `{"key":"x"}`)
	if resp := a.invoke(t, "dashboard", ev); resp.StatusCode != 204 || len(resp.Cookies) > 0 {
		t.Errorf("%d %s, cookies %q", resp.StatusCode, resp.Body, resp.Cookies)
	}
	resp := serve(t, newFunction(t, "dashboard", a, httpapi.Options{Now: now, Logger: options.Logger}), ev)
	if resp.StatusCode != 500 || len(resp.Cookies) > 0 {
		t.Errorf("with keys on and without a store of keys: %d %s, cookies %q", resp.StatusCode, resp.Body, resp.Cookies)
	}
	checkDescribed(t, ev, resp)
}
