package httpapi_test

import (
	"strings"
	"testing"

	"sluice/pkg/httpapi"
)

const secret, nextSecret = "the-first-secret", "the-second-secret"

// A request through CloudFront is charged to the viewer's address. A request that bypasses
// CloudFront is rejected whatever its headers say, and is charged to its connection address.
func TestRequestsThatBypassTheProxyAreRejected(t *testing.T) {
	for name, tt := range map[string]struct {
		secret  string // "" for none
		viewer  string
		status  int
		address string // the address that is charged
	}{
		"IPv4":                      {secret, "198.51.100.10:46532", 200, "198.51.100.10"},
		"another secret":            {nextSecret, "198.51.100.10:46532", 200, "198.51.100.10"},
		"IPv6":                      {secret, "2001:db8:1:2:3:4:5:6:46532", 200, "2001:db8:1:2::/64"},
		"IPv6 with a short port":    {secret, "2001:db8::1:443", 200, "2001:db8::/64"},
		"IPv6 in brackets":          {secret, "[2001:db8::1]:443", 200, "2001:db8::/64"},
		"an appended value":         {secret, "192.0.2.99:1, 198.51.100.10:46532", 200, "198.51.100.10"},
		"no secret":                 {"", "198.51.100.10:46532", 403, "192.0.2.1"},
		"a wrong secret":            {"the-wrong-secret", "198.51.100.10:46532", 403, "192.0.2.1"},
		"both secrets":              {secret + "," + nextSecret, "198.51.100.10:46532", 403, "192.0.2.1"},
		"no address":                {secret, "", 400, ""},
		"an address without a port": {secret, "198.51.100.10", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			opts := options
			opts.OriginSecrets, opts.ClientIPHeader = []string{secret, nextSecret}, "CloudFront-Viewer-Address"
			ev := sample(t, "list-entity")
			ev.RequestContext.HTTP.SourceIP = "192.0.2.1"
			if tt.secret != "" {
				ev.Headers["x-origin-secret"] = tt.secret
			}
			if tt.viewer != "" {
				ev.Headers["cloudfront-viewer-address"] = tt.viewer
			}
			resp := serve(t, newFunction(t, "list-entity", a, opts), ev)
			if resp.StatusCode != tt.status || tt.status == 403 && code(t, resp) != "direct_request" {
				t.Errorf("%d %s, want %d", resp.StatusCode, resp.Body, tt.status)
			}
			if tt.address == "" {
				return
			}
			used := a.usage(t, "192.0.2.200", "?address="+strings.ReplaceAll(tt.address, ":", "%3A")).Seconds
			if n := used[len(used)-1].Requests["list-entity"]; n != 1 {
				t.Errorf("%s has used %d requests, want 1", tt.address, n)
			}
		})
	}
}

func TestTheLastAddressOfAHeaderCounts(t *testing.T) {
	for value, want := range map[string]string{
		"198.51.100.10":                       "198.51.100.10",
		"192.0.2.99, 198.51.100.10":           "198.51.100.10",
		"192.0.2.99:1,198.51.100.10:46532":    "198.51.100.10", // as Azure Application Gateway sends it
		"2001:db8::1":                         "2001:db8::/64",
		"192.0.2.99, [2001:db8::1]:46532":     "2001:db8::/64",
		"[::ffff:198.51.100.10]:46532":        "198.51.100.10",
		"198.51.100.10, ":                     "",
		"198.51.100.10:":                      "",
		"198.51.100.10:65536":                 "",
		"198.51.100.10:x":                     "",
		"[198.51.100.10]:1":                   "",
		"unknown":                             "",
		"":                                    "", // no header
		"192.0.2.99, _hidden, " + "a.example": "",
	} {
		a := newAPI(t)
		opts := options
		opts.ClientIPHeader = "X-Forwarded-For"
		ev := sample(t, "list-entity")
		if ev.Headers["x-forwarded-for"] = value; value == "" {
			delete(ev.Headers, "x-forwarded-for")
		}
		status := 200
		if want == "" {
			status = 400
		}
		if resp := serve(t, newFunction(t, "list-entity", a, opts), ev); resp.StatusCode != status {
			t.Errorf("%q: %d %s, want %d", value, resp.StatusCode, resp.Body, status)
		}
		if want == "" {
			continue
		}
		used := a.usage(t, "192.0.2.200", "?address="+strings.ReplaceAll(want, ":", "%3A")).Seconds
		if n := used[len(used)-1].Requests["list-entity"]; n != 1 {
			t.Errorf("%q: %s has used %d requests, want 1", value, want, n)
		}
	}
}

func TestOriginSecretsOfTheEnvironment(t *testing.T) {
	env := map[string]string{"CLIENT_IP_HEADER": "CloudFront-Viewer-Address"}
	get := func(name string) string { return env[name] }
	for value, want := range map[string]int{"": 0, secret: 1, secret + "," + nextSecret: 2, "short": -1, secret + ",": -1} {
		env["ORIGIN_SECRET"] = value
		c, err := httpapi.LoadConfig(get)
		if (err != nil) != (want < 0) || err == nil && len(c.OriginSecrets) != want {
			t.Errorf("%q: %q, %v", value, c.OriginSecrets, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	env = map[string]string{"ORIGIN_SECRET": secret}
	if _, err := httpapi.LoadConfig(get); err == nil || !strings.Contains(err.Error(), "CLIENT_IP_HEADER") {
		t.Errorf("a secret without a header for the address: %v", err)
	}
}

// A malicious page can make its own host name resolve to a loopback address (DNS rebinding).
func TestOnlyLoopbackNamesReachALoopbackServer(t *testing.T) {
	a := newAPI(t)
	opts := options
	opts.LoopbackOnly = true
	for host, status := range map[string]int{
		"localhost": 200, "localhost:3000": 200, "LOCALHOST.": 200, "sluice.localhost:3000": 200,
		"127.0.0.1:3000": 200, "127.1.2.3": 200, "[::1]:3000": 200, "[::1]": 200,
		"example.com": 403, "example.com:3000": 403, "localhost.example.com": 403, "127.0.0.1.example.com": 403,
		"192.0.2.1:3000": 403, "0.0.0.0:3000": 403, "": 403,
	} {
		r := requestOf(t, sample(t, "list-entity"))
		r.Host = host
		resp := serveHTTP(newFunction(t, "list-entity", a, opts), r)
		checkDescribed(t, sample(t, "list-entity"), resp)
		if resp.StatusCode != status || resp.Headers["RateLimit"] == "" || status == 403 && code(t, resp) != "unknown_host" {
			t.Errorf("%q: %d %s, want %d", host, resp.StatusCode, resp.Body, status)
		}
	}
}
