package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	api "sluice/pkg/client"
)

// usageServer serves usage, and sends each requested URL to asked.
func usageServer(t *testing.T) (url string, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := api.Usage{Address: "192.0.2.1", Limit: 20, Limits: api.UsageLimits{Records: 200, Imports: 20, Requests: 100}, Seconds: make([]api.UsageSecond, 60)}
		u.Seconds[59].Requests = map[string]int64{"create-export-job": 1}
		if err := json.NewEncoder(w).Encode(u); err != nil {
			t.Error(err)
		}
		asked <- r.URL.String()
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestUsageOnce(t *testing.T) {
	t.Parallel()
	url, asked := usageServer(t)
	out, stderr, code := run(t, sluiceCommand(t, url, "usage", "--once", "--address", "2001:db8::1"))
	if code != 0 || !strings.HasPrefix(out, "192.0.2.1, the last 55 seconds\n\nrecords ") || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if got := <-asked; got != "/usage?address=2001%3Adb8%3A%3A1" {
		t.Errorf("asked for %s", got)
	}
	out, stderr, code = run(t, sluiceCommand(t, url, "usage", "--once", "--json"))
	var u api.Usage
	if err := json.Unmarshal([]byte(out), &u); err != nil || code != 0 || len(u.Seconds) != 60 {
		t.Errorf("exit code %d, %s%s, %v", code, out, stderr, err)
	}
	if got := <-asked; got != "/usage" {
		t.Errorf("asked for %s", got)
	}
}

// The command restores the terminal, however it ends.
func TestUsageLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	need(t, "script", "install bsdutils, which contains script(1)")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		url, asked := usageServer(t)
		// The shell prints its process id and is then replaced by the command.
		cmd := exec.CommandContext(t.Context(), "script", "-qec", "echo $$; exec "+program+" usage", os.DevNull)
		cmd.Env = sluiceCommand(t, url).Env
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdin, err := cmd.StdinPipe() // script ends when its input ends
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		<-asked
		var pid int
		if _, err := fmt.Fscan(stdout, &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(stdout)
		if err != nil {
			t.Fatal(err)
		}
		stdin.Close() //nolint:errcheck // the command has ended
		cmd.Wait()    //nolint:errcheck // the exit code is checked
		shown := strings.TrimLeft(string(rest), "\r\n")
		if cmd.ProcessState.ExitCode() != 0 || !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[H192.0.2.1") || !strings.HasSuffix(shown, "\x1b[J\x1b[?25h\x1b[?1049l") {
			t.Errorf("%v: exit code %d, %q", signal, cmd.ProcessState.ExitCode(), shown)
		}
	}
}
