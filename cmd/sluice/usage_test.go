package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
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

func TestUsageOfIdentities(t *testing.T) {
	t.Parallel()
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key", "LIMIT_IMPORTS=1"})
	wantRun(t, inEnv(t, s.env, "plans", "set", "pro", "--imports-per-month", "8"), 0, "plan:pro", "")
	acme := createKey(t, s.env, "--scope", "import", "--plan", "pro", "--workspace", "acme", "--name", "ACME, Inc")
	operator := createKey(t, s.env, "--scope", "dashboard", "--scope", "operator")
	usage := func(args ...string) *exec.Cmd {
		cmd := sluiceCommand(t, s.url, append([]string{"usage"}, args...)...)
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+operator)
		return cmd
	}
	wantRun(t, usage("--identities", "month"), 0, "", "Nothing was used in this month.")
	c := s.client(t)
	admitted, refused := 0, 0
	for n := 0; admitted < 2 || refused < 2; n++ {
		if r := c.check(t, http.MethodPost, "/create_event", fmt.Sprintf(`{"id":"e%d","name":"n"}`, n), "Authorization", "Bearer "+acme); r.status == http.StatusCreated {
			admitted++
		} else {
			refused++
		}
	}
	line := func(out string) string {
		for text := range strings.Lines(out) {
			if strings.HasPrefix(text, "key:"+idOf(acme)) {
				return strings.Join(strings.Fields(text)[1:], " ")
			}
		}
		return "no line of the key in " + out
	}
	out, _ := wantRun(t, usage("--identities", "minute", "--sort", "refused"), 0, "COUNTED", "")
	if got, want := line(out), fmt.Sprintf("100.0 %% 0 %d %d %d limit acme pro ACME, Inc", admitted, admitted, refused); got != want {
		t.Errorf("a minute: %s, want %s", got, want)
	}
	out, _ = wantRun(t, usage("--identities", "month"), 0, "COUNTED", "")
	if got, want := line(out), fmt.Sprintf("%.1f %% 0 %d limit acme pro ACME, Inc", 100*float64(admitted)/8, admitted); got != want {
		t.Errorf("a month: %s, want %s", got, want)
	}
	wantRun(t, usage("--identities", "month", "--json"), 0, "{\n  \"period\": \"month\",", "")
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--identities", "year"}, exitFailure, "must be minute, day or month"},
		{[]string{"--sort", "share"}, exitUsage, "--sort needs --identities"},
		{[]string{"--identities", "day", "--of", "192.0.2.1"}, exitUsage, "exclude each other"},
		{[]string{"--identities", "day", "--all-keys"}, exitUsage, "exclude each other"},
	} {
		wantRun(t, usage(tt.args...), tt.code, "", tt.says)
	}
}

// On AWS, the command says where to look.
func TestUsageOfIdentitiesThatAreElsewhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"identities":{"period":"minute","start":1,"left_out":0,"complete":true,"refusals_query":{"name":"sluice-prod/Refused most","url":"https://console.example.com/"}}}`)
	}))
	t.Cleanup(server.Close)
	wantRun(t, sluiceCommand(t, server.URL, "usage", "--identities", "minute"), exitFailure, "", "the saved query sluice-prod/Refused most says who is refused; run it at https://console.example.com/")
}
