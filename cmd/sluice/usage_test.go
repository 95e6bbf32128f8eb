package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/pkg/client"
)

// usageServer always responds with the same usage. The channel receives each request's URL.
func usageServer(t *testing.T) (url string, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := client.Usage{Counted: "key:7m3kq2xw9abc", Limit: 20, Limits: client.UsageLimits{Records: 200, Imports: 20, Requests: 100}, Seconds: make([]client.UsageSecond, 60)}
		u.Seconds[59].Requests = map[string]int64{"create-export-job": 1}
		if err := json.NewEncoder(w).Encode(u); err != nil {
			t.Error(err)
		}
		asked <- r.URL.String()
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// Without a terminal, the command ends too.
func TestUsageOnce(t *testing.T) {
	t.Parallel()
	url, asked := usageServer(t)
	for _, args := range [][]string{{"usage", "--of", "2001:db8::1"}, {"usage", "--once", "--of", "2001:db8::1"}} {
		out, stderr, code := run(t, sluiceCommand(t, url, args...))
		if code != 0 || !strings.HasPrefix(out, "key 7m3kq2xw9abc, the last 55 seconds\n\nrecords ") || strings.Contains(out, "\x1b") {
			t.Errorf("exit code %d, %s%s", code, out, stderr)
		}
		if got := <-asked; got != "/usage?address=2001%3Adb8%3A%3A1" || len(asked) > 0 {
			t.Errorf("asked for %s", got)
		}
	}
	out, stderr, code := run(t, sluiceCommand(t, url, "usage", "--json"))
	var u client.Usage
	if err := json.Unmarshal([]byte(out), &u); err != nil || code != 0 || len(u.Seconds) != 60 {
		t.Errorf("exit code %d, %s%s, %v", code, out, stderr, err)
	}
	if got := <-asked; got != "/usage" {
		t.Errorf("asked for %s", got)
	}
}
