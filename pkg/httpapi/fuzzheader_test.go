package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/pkg/access"
	"sluice/pkg/httpapi"
)

// No header fails the service, opens a route without a valid API key or closes one with such a key,
// is repeated at length, or takes away the limit headers.
func FuzzRequestHeaders(f *testing.F) {
	f.Add("Bearer slc_aaaaaaaaaaaa_22222222222222222222222222222222", "sluice_session=a; b", "192.0.2.1, 192.0.2.2:80", "https", `W/"a", "b"`, "gzip", "application/json; charset=utf-8", "text/html;q=0.9", "gzip;q=0, *")
	f.Add("bearer  _", "__Host-sluice_session=\"_\"", "[2001:db8::1]:443", "http", "*", "x-gzip, gzip", "application/JSON;a=\"b;c\"", "*/*", "identity;q=1.5")
	f.Add("Basic YTpi", "=;=", "192.0.2.1,", "", "\xff", "\x00", "text/plain\r\nX: y", ",", ";q=")
	f.Add("", "", "::ffff:192.0.2.1%eth0", "", "", "", "", "", "")
	g := newGuarded(f)
	g.opts.Logger, g.opts.ClientIPHeader = slog.New(slog.DiscardHandler), "X-Forwarded-For"
	key := g.key(f, "mine", access.Scopes()...)
	api, err := httpapi.New(newRoomyAPI(f).limiter, g.stores, g.opts)
	if err != nil {
		f.Fatal(err)
	}
	targets := make(map[string]bool) // whether a key is needed
	for _, r := range httpapi.Routes() {
		if path := strings.NewReplacer("{id}", "a", "{proxy+}", "app.js").Replace(r.Path); r.Method != "" {
			targets[r.Method+" "+path] = r.Scope != access.Public
		}
	}
	f.Fuzz(func(t *testing.T, authorization, cookie, from, scheme, match, coding, media, accept, codings string) {
		for target, needsKey := range targets {
			for _, authorization := range []string{authorization, key} {
				method, path, _ := strings.Cut(target, " ")
				r, w := httptest.NewRequest(method, path, strings.NewReader(`{"id":"a"}`)), httptest.NewRecorder()
				r.Header = http.Header{
					"Authorization": {authorization}, "Cookie": {cookie}, "X-Forwarded-For": {from}, "X-Forwarded-Proto": {scheme}, "If-Match": {match}, "If-None-Match": {match},
					"Content-Encoding": {coding}, "Content-Type": {media}, "Accept": {accept}, "Accept-Encoding": {codings}, "Origin": {match}, "Sec-Fetch-Site": {scheme},
				}
				api.ServeHTTP(w, r)
				body, header := w.Body.String(), w.Header()
				switch {
				case w.Code < 200 || w.Code >= 500 || w.Code == http.StatusTooManyRequests:
					t.Errorf("%s: status %d: %.500s", target, w.Code, body)
				case needsKey && authorization != key && w.Code < 400:
					t.Errorf("%s: status %d without a key: %.500s", target, w.Code, body)
				case authorization == key && w.Code == http.StatusUnauthorized:
					t.Errorf("%s: status %d with a key: %.500s", target, w.Code, body)
				case w.Code >= 400 && (len(body) > 2000 || !utf8.ValidString(body) || !json.Valid([]byte(body)) || header.Get("Content-Type") != "application/problem+json"):
					t.Errorf("%s: status %d as %s with %d bytes: %.500q", target, w.Code, header.Get("Content-Type"), len(body), body)
				}
				for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy"} {
					if len(header[name]) != 1 {
						t.Errorf("%s: status %d with %s: %q", target, w.Code, name, header[name])
					}
				}
			}
		}
	})
}
