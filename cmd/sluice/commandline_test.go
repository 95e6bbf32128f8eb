package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/internal/test/child"
)

// An empty filter, for example from an unset shell variable, must not select everything.
func TestEmptyFlagValuesAreRejected(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"export event -o - --entity-id=", "export event -o - --from=", "export event -o - --to=", "export entity -o - --type=",
		"export entity -o - --csv-formulas=", "export entity -o e.csv --format=",
		"keys list --workspace=", "keys create --scope import --workspace=", "keys create --scope import --expires-in=", "usage --once --address=",
	} {
		words := strings.Fields(args)
		flag, _, _ := strings.Cut(words[len(words)-1], "=")
		out, stderr, code := run(t, sluiceCommand(t, nowhere, words...))
		if want := "sluice: " + flag + " is empty; give it a value or leave it out\n"; code != exitUsage || stderr != want || out != "" {
			t.Errorf("%s: exit code %d, %q%q; want %q", args, code, out, stderr, want)
		}
	}
}

func TestTheURLNeedsAScheme(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, flag, want string }{
		{nowhere, "--url=localhost:3000", `sluice: --url needs http:// or https://, not "localhost:3000"`},
		{"api.example.com", "--once", `sluice: SLUICE_URL needs http:// or https://, not "api.example.com"`},
	} {
		if out, stderr, code := run(t, sluiceCommand(t, tt.url, "usage", tt.flag)); code != exitUsage || stderr != tt.want+"\n" || out != "" {
			t.Errorf("exit code %d, %s%s; want %s", code, out, stderr, tt.want)
		}
	}
}

// If the API key lacks permission, an import leaves no journal, so the user can try another
// service or another key.
func TestARejectedKeyLeavesNoJournal(t *testing.T) {
	t.Parallel()
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + t.TempDir()}
	s := startIn(t, env)
	key := createKey(t, env, "--scope", "export")
	file := write(t, "events.ndjson", "{\n"+eventLines(300))
	entities := filepath.Join(filepath.Dir(file), "entities.ndjson")
	if err := os.WriteFile(entities, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", "events", file}, {"import", "entities", entities, "--workers", "1"}, {"export", "events", "-o", filepath.Join(filepath.Dir(file), "out.csv")}} {
		cmd := sluiceCommand(t, s.url, args...)
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+key)
		out, stderr, code := run(t, cmd)
		if code != exitFailure || out != "" || !strings.Contains(stderr, "status 403") || strings.Contains(stderr, "same command") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, stderr)
		}
		wantFiles(t, filepath.Dir(file), "entities.ndjson", "events.ndjson")
	}
	s.stop(t)
}

func TestOneRecordWasRejected(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	file := write(t, "events.ndjson", "{\n"+`{"name":"n"}`)
	out, stderr, code := run(t, sluiceCommand(t, s.url, "import", "event", file))
	if code != exitRejected || !strings.HasPrefix(out, "2 events: 1 new, 0 there already, 1 rejected. 1 call in ") || stderr != "sluice: 1 record was rejected; "+file+".rejects.ndjson says why\n" {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	s.stop(t)
}

// "keys create" does not create a data directory that no server uses.
func TestAKeyNeedsAStore(t *testing.T) {
	t.Parallel()
	cmd := sluiceCommand(t, nowhere, "keys", "create", "--scope", "import")
	cmd.Env = append(cmd.Env, "DATA_DIR=", "KEYS_TABLE=")
	out, stderr, code := run(t, cmd)
	if code != exitUsage || out != "" || !strings.Contains(stderr, cmd.Dir+"/.sluice") || !strings.Contains(stderr, "--data-dir") || !strings.Contains(stderr, "--table") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	wantFiles(t, cmd.Dir)
	// With --data-dir, the directory need not exist, because a server may use it later.
	cmd = sluiceCommand(t, nowhere, "keys", "create", "--scope", "import", "--data-dir", "later")
	if out, stderr, code := run(t, cmd); code != 0 || !strings.HasPrefix(out, "slc_") || !strings.Contains(stderr, cmd.Dir+"/later") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The server prints its data directory as an absolute path, which is valid in any working
// directory.
func TestThePrintedDataDirectoryIsAbsolute(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(work, dir)
	if err != nil {
		t.Fatal(err)
	}
	s := startIn(t, []string{"AUTH_MODE=api-key", "DATA_DIR=" + relative})
	printed := s.stop(t)
	if want := "  records in " + dir + "/sluice.db, "; !strings.Contains(printed, want) {
		t.Errorf("%q does not contain %q", printed, want)
	}
	command := regexp.MustCompile(`KEY=\$\(sluice (.*)\)`).FindStringSubmatch(printed)
	if command == nil {
		t.Fatalf("no command in %q", printed)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", program+" "+command[1])
	cmd.Dir = t.TempDir()
	if _, stderr, code := run(t, cmd); code != 0 || !strings.Contains(stderr, dir) {
		t.Errorf("%s: exit code %d, %s", command[1], code, stderr)
	}
}

// Ctrl-C on the terminal of "make run" ends the server and make without an error.
func TestCtrlCEndsMakeRun(t *testing.T) {
	t.Parallel()
	need(t, "script", "install bsdutils, which contains script(1)")
	for _, command := range []string{program + " serve", "make -C " + child.ModuleRoot(t) + " run"} {
		// Without exec, the shell may exit with 130.
		cmd := exec.CommandContext(t.Context(), "script", "-qec", "exec "+command, os.DevNull)
		cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+t.TempDir(), "MAKEFLAGS=")
		keyboard, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if _, err := p.ReadyText(t.Context(), "(Ctrl-C stops it)"); err != nil {
			t.Fatal(err)
		}
		if _, err := keyboard.Write([]byte{3}); err != nil { // ETX, which Ctrl-C types
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || !strings.Contains(p.Log(), "Stopped.") {
			t.Errorf("%s: %v, %s", command, err, p.Log())
		}
	}
}

// A service that cannot be reached is reported within two seconds, with the time
// until the next try.
func TestAnOutageIsReported(t *testing.T) {
	t.Parallel()
	file := write(t, "events.ndjson", eventLines(1))
	for _, tt := range []struct{ url, reason string }{{nowhere, "connection refused"}, {"http://sluice.invalid", ""}} {
		for _, args := range [][]string{{"import", "events", file}, {"usage", "--once"}} {
			cmd := sluiceCommand(t, tt.url, args...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			text := make([]byte, 300)
			n, err := stderr.Read(text)
			if took := time.Since(began); err != nil || took > 2*time.Second {
				t.Errorf("%v: reported after %s, %v", args, took, err)
			}
			if !regexp.MustCompile(`^No response from ` + tt.url + `: .*` + tt.reason + `\. Next try in \d+\.\d s\.\n`).Match(text[:n]) {
				t.Errorf("%v: %s", args, text[:n])
			}
			cmd.Process.Kill()          //nolint:errcheck // the command may have ended
			io.Copy(io.Discard, stderr) //nolint:errcheck // waits for the end of the command
			cmd.Wait()                  //nolint:errcheck // the command was killed
		}
		os.Remove(file + ".sluice-import") //nolint:errcheck // the next import is to another service
	}
}

// onTerminal runs a shell command on a terminal and returns what it shows.
func onTerminal(t *testing.T, env []string, command string) string {
	t.Helper()
	need(t, "script", "install bsdutils, which contains script(1)")
	cmd := exec.CommandContext(t.Context(), "script", "-qec", command, os.DevNull)
	cmd.Env = env
	stdin, err := cmd.StdinPipe() // script ends when its input ends
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() //nolint:errcheck // script has ended
	out, _, _ := run(t, cmd)
	return out
}

// Every progress line fits the terminal, even if the width of the terminal changes, and
// shows the time until the next try.
func TestProgressFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	var calls atomic.Int64
	slow := between(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n := calls.Add(1); n >= 5 && n <= 8 {
			panic(http.ErrAbortHandler) // no response
		}
		time.Sleep(20 * time.Millisecond) // a slow response, so that the terminal is resized during the import
		next.ServeHTTP(w, r)
	})
	resize := "stty cols 60; { sleep 1.5; stty cols 120 </dev/tty; } & "
	file := write(t, "events.ndjson", eventLines(300))
	shown := onTerminal(t, sluiceCommand(t, slow).Env, resize+program+" import events --one-by-one --workers 1 --rate 50 "+file)
	var widths []int
	for text := range strings.SplitSeq(shown, "\r\x1b[K") {
		line, _, _ := strings.Cut(text, "\r\n")
		if strings.Contains(line, " records") {
			widths = append(widths, utf8.RuneCountInString(line))
		}
	}
	if len(widths) < 10 || widths[0] > 59 || widths[len(widths)-1] < 60 || widths[len(widths)-1] > 119 {
		t.Errorf("widths %v: %q", widths, shown)
	}
	if !strings.Contains(shown, "No response from "+slow+": EOF.") {
		t.Errorf("%q", shown)
	}
	s.stop(t)
}

// Every line of the bars fits the terminal, even if the width of the terminal changes.
func TestUsageFitsTheTerminal(t *testing.T) {
	t.Parallel()
	url, _ := usageServer(t)
	// exec replaces the shell with the command, so $$ is the process id of the command.
	resize := "stty rows 24 cols 60; { sleep 1.5; stty cols 120 </dev/tty; sleep 1.5; kill -INT $$; } & exec "
	shown := onTerminal(t, sluiceCommand(t, url).Env, resize+program+" usage")
	screens := strings.Split(shown, "\x1b[H")[1:]
	if len(screens) < 3 {
		t.Fatalf("%q", shown)
	}
	for _, tt := range []struct {
		screen  string
		columns int
		want    string
	}{
		{screens[0], 60, " 0 of 200"}, {screens[len(screens)-1], 120, " 0 now, at most 0 of 200, 0 full"},
	} {
		longest := 0
		for line := range strings.SplitSeq(tt.screen, "\x1b[K") {
			longest = max(longest, utf8.RuneCountInString(strings.TrimLeft(line, "\r\n")))
		}
		if longest >= tt.columns || longest < tt.columns*3/4 || !strings.Contains(tt.screen, tt.want+"\x1b[K") {
			t.Errorf("%d of %d columns are used: %q; want %q", longest, tt.columns, tt.screen, tt.want)
		}
	}
}

// The import makes at most as many calls per second as --rate allows.
func TestImportRate(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	proxy := between(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		calls.Add(1)
		next.ServeHTTP(w, r)
	})
	began := time.Now()
	out, stderr, code := run(t, sluiceCommand(t, proxy, "import", "events", "--one-by-one", "--rate", "20", write(t, "events.ndjson", eventLines(41))))
	if took := time.Since(began); code != 0 || calls.Load() != 41 || took < 2*time.Second {
		t.Errorf("%d calls in %s, exit code %d, %s%s", calls.Load(), took, code, out, stderr)
	}
	s.stop(t)
}

func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"keys create --scope ":           "dashboard export import",
		"limits set 192.0.2.1 --action ": "limit block unlimited observe",
		"export ":                        "entities events",
		"import ":                        "entities events",
		"sync ":                          "entities events",
		"export events --format ":        "ndjson csv",
		"import events f --format ":      "ndjson csv",
		"export events --csv-formulas ":  "neutralize keep",
	} {
		out, stderr, code := run(t, sluiceCommand(t, nowhere, append([]string{"__complete"}, strings.Split(args, " ")...)...))
		values, _, _ := strings.Cut(out, "\n:")
		if got := strings.Join(strings.Fields(values), " "); code != 0 || got != want {
			t.Errorf("%q: %q, %s", args, got, stderr)
		}
	}
}
