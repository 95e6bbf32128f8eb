package main

import (
	"bytes"
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

// used is a usage of 60 seconds, of which the last have these records.
func used(records ...int64) api.Usage {
	u := api.Usage{Address: "192.0.2.1", Limit: 20, Limits: api.UsageLimits{Records: 200, Imports: 20, Requests: 100}}
	for i := range int64(60) {
		u.Seconds = append(u.Seconds, api.UsageSecond{Second: 1_800_000_000 + i, Requests: map[string]int64{}})
	}
	for i, n := range records {
		s := &u.Seconds[60-len(records)+i]
		s.Records, s.Requests["list-entity"] = n, 1
	}
	return u
}

func TestBarsShowWhatWasUsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width   int
		seconds int
	}{{200, 60}, {121, 60}, {120, 59}, {20, 5}, {0, 5}} {
		got := bars(used(0, 1, 199, 200, 60), tt.width)
		pad := strings.Repeat(" ", tt.seconds-5)
		want := []string{
			fmt.Sprintf("192.0.2.1, the last %d seconds", tt.seconds),
			"",
			"records                    " + pad + " ▁▇█▃ 60 now, at most 200 of 200, 1 full",
			"imports                    " + pad + "      0 now, at most 0 of 20, 0 full",
			"requests list-entity       " + pad + "▁▁▁▁▁ 1 now, at most 1 of 100, 0 full",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("width %d: got\n%s\nwant\n%s", tt.width, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if got := bars(api.Usage{Address: "192.0.2.1"}, 100); len(got) != 4 {
		t.Errorf("of nothing: %q", got)
	}
}

// Both ends of every height.
func TestTheHeightOfABar(t *testing.T) {
	t.Parallel()
	for used, want := range map[int64]rune{-1: ' ', 0: ' ', 1: '▁', 28: '▁', 29: '▂', 171: '▆', 172: '▇', 199: '▇', 200: '█', 201: '█'} {
		if got := bar(used, 200); got != want {
			t.Errorf("%d of 200: %c, want %c", used, got, want)
		}
	}
}

// Elsewhere than on a terminal each second is shown once, when it is over.
func TestLinesShowEachSecondOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show := showLines()
	u := used(5, 6, 7, 8)
	for range 2 {
		if err := show(&out, u); err != nil {
			t.Fatal(err)
		}
	}
	u.Seconds = append(u.Seconds[1:], api.UsageSecond{Second: 1_800_000_060})
	if err := show(&out, u); err != nil {
		t.Fatal(err)
	}
	if want := "2027-01-15T08:00:57Z, records 6/200, imports 0/20, requests list-entity 1/100\n2027-01-15T08:00:58Z, records 7/200, imports 0/20, requests list-entity 1/100\n"; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

// usageServer answers for usage, and tells on asked of what.
func usageServer(t *testing.T) (url string, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewEncoder(w).Encode(used(1, 2, 3)); err != nil {
			t.Error(err)
		}
		asked <- r.URL.String()
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestLimitsOnce(t *testing.T) {
	t.Parallel()
	url, asked := usageServer(t)
	out, stderr, code := run(t, sluiceCommand(t, url, "limits", "--once", "--address", "2001:db8::1"))
	if code != 0 || !strings.HasPrefix(out, "192.0.2.1, the last 59 seconds\n\nrecords ") || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if got := <-asked; got != "/usage?address=2001%3Adb8%3A%3A1" {
		t.Errorf("asked for %s", got)
	}
	out, stderr, code = run(t, sluiceCommand(t, url, "limits", "--once", "--json"))
	var u api.Usage
	if err := json.Unmarshal([]byte(out), &u); err != nil || code != 0 || len(u.Seconds) != 60 {
		t.Errorf("exit code %d, %s%s, %v", code, out, stderr, err)
	}
	if got := <-asked; got != "/usage" {
		t.Errorf("asked for %s", got)
	}
}

// A terminal looks after the command as it did before, however it is stopped.
func TestLimitsLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	need(t, "script", "install bsdutils, whose script(1) lends a terminal")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		url, asked := usageServer(t)
		// The shell tells its process id and becomes the command.
		cmd := exec.CommandContext(t.Context(), "script", "-qec", "echo $$; exec "+program+" limits", os.DevNull)
		cmd.Env = sluiceCommand(t, url).Env
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdin, err := cmd.StdinPipe() // script ends with its input
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
		stdin.Close() //nolint:errcheck // it has ended
		cmd.Wait()    //nolint:errcheck // its exit code is looked at
		shown := strings.TrimLeft(string(rest), "\r\n")
		if cmd.ProcessState.ExitCode() != 0 || !strings.HasPrefix(shown, enterScreen+toTop+"192.0.2.1") || !strings.HasSuffix(shown, clearBelow+leaveScreen) {
			t.Errorf("%v: exit code %d, %q", signal, cmd.ProcessState.ExitCode(), shown)
		}
	}
}
