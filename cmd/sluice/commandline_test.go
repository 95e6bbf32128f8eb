package main

import (
	"bufio"
	"bytes"
	"fmt"
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
	"sluice/internal/test/secrettest"
)

// The program prints what is wrong, exits with exitUsage, and creates no file.
func TestInvalidCommandLines(t *testing.T) {
	t.Parallel()
	const since = " --since 2026-01-01T00:00:00Z"
	for want, lines := range map[string][]string{
		"unknown command": {"nothing", "serve now", "usage now", "keys list now"},
		"unknown flag":    {"--nothing", "limits --once"},
		"import needs entities or events, and a file; for example: sluice import events orders.csv":   {"import"},
		"import needs entities or events before f.ndjson; for example: sluice import events f.ndjson": {"import f.ndjson"},
		"import needs a file after entities; for example: sluice import entities orders.csv":          {"import entities"},
		`import has one argument too many, "g"; for example: sluice import events orders.csv`:         {"import events f.ndjson g"},
		"sync needs a file after events; for example: sluice sync events copy.ndjson":                 {"sync events"},
		"export needs entities or events; for example: sluice export events -o events.ndjson":         {"export"},
		"erase needs the word entity, and an id; for example: sluice erase entity ada":                {"erase entity", "erase"},
		"the row would set nothing":                 {"limits set 192.0.2.1", "limits set key:7m3kq2xw9abc --note n"},
		"--map needs COLUMN=FIELD":                  {"import events f.ndjson --map id", "import events f.ndjson --map =id"},
		`the column "a" twice`:                      {"import events f.ndjson --map a=id,a=name"},
		`--map makes both "a" and "b" the field id`: {"import events f.ndjson --map a=id --map b=id"},
		`"type" is not a field; the fields are id, name, entity_id, occurred_at, attributes`: {"import events f.ndjson --map a=type"},
		`"created_at" is not a field`:                                    {"import entities f.ndjson --map a=created_at"},
		"--delimiter must be one character":                              {"import events f.ndjson --format csv --delimiter ;;"},
		"--delimiter is for CSV":                                         {"import events f.ndjson --delimiter ;"},
		"--encoding nothing is unknown; use a name such as windows-1252": {"import events f.ndjson --encoding nothing"},
		"is a format of strftime, such as %d.%m.%Y":                      {"import events f.ndjson --time-format dd.mm.yyyy", "import events f.ndjson --time-format %H:%M", "import events f.ndjson --time-format %d.%m.%!"},
		"add %p for AM or PM, or use %H":                                 {"import events f.ndjson --time-format %Y-%m-%d,%I:%M", "import events f.ndjson --time-format %d.%m.%Y,%-I", "import events f.ndjson --time-format %I:%M:%S"},
		"--time-format cannot have %Z":                                   {"import events f.ndjson --time-format %Y-%m-%dT%H:%M:%S%Z"},
		"--time-zone is for times without an offset":                     {"import events f.ndjson --time-format %Y-%m-%d%z --time-zone UTC"},
		"--time-zone needs --time-format":                                {"import events f.ndjson --time-zone UTC"},
		`--time-zone "Mars" is unknown`:                                  {"import events f.ndjson --time-format %d.%m.%Y --time-zone Mars"},
		"--time-format is for occurred_at of events":                     {"import entities f.ndjson --time-format %d.%m.%Y"},
		"--name is for events; use --type":                               {"import entities f.ndjson --name n"},
		"--type is for entities; use --name":                             {"import events f.ndjson --type t"},
		"f.zip: no such file":                                            {"import events f.zip"},
		"--workers must be":                                              {"import events f.ndjson --workers 0", "import events f.ndjson --workers 65"},
		"--rate must be":                                                 {"import events f.ndjson --rate 0", "sync entities copy.ndjson --rate 0"},
		"--share must be":                                                {"import events f.ndjson --share 0", "sync entities copy.ndjson --share 1.1", "export events -o - --share NaN"},

		"import entities or events":    {"import things f.ndjson"},
		"no such file":                 {"import events none.ndjson"},
		"does not show the format":     {"import events file.txt", "import events .", "export event -o file", "export event -o file.json"},
		"events never change":          {"import events f.ndjson --update", "import events f.ndjson --create-only"},
		"cannot be used together":      {"import entities f.ndjson --create-only --update"},
		"--one-by-one is for events":   {"import entities f.ndjson --one-by-one"},
		"--format must be":             {"import events f.ndjson --format xml", "export event -o - --format xml", "export event -o - --format json"},
		"must be three":                {"import events f.ndjson --rejects f.ndjson"},
		"--url needs http:// or https": {"import events f.ndjson --url localhost", "usage --url=localhost:3000", "erase entity a --url ftp://host"},

		"-o is required":                              {"export event", "export event --output="},
		"export entities or events":                   {"export things -o -"},
		"--since is not an RFC 3339":                  {"export entities -o - --since now"},
		"--include-deleted needs --since":             {"export entities -o - --include-deleted"},
		"--type with --since needs --include-deleted": {"export entities -o - --type person" + since},
		"--include-deleted is for entities":           {"export events -o - --include-deleted" + since},
		"--since cannot be used with --from and --to": {"export events -o - --to 2026-02-01T00:00:00Z" + since},
		"--since writes NDJSON": {
			"export entities -o - --format csv" + since, "export entities -o x.csv" + since, "export entities -o - --csv-formulas neutralize" + since,
		},
		"filters for entities may have only type": {"export entities -o - --entity-id ada" + since},

		"the copy must be an NDJSON file, not":   {"sync entities -", "sync entities copy.ndjson.gz", "sync events copy.csv"},
		`sync entities or events, not "people"`:  {"sync people copy.ndjson"},
		"erase takes entity and an id":           {"erase event e"},
		`the id "a/b"`:                           {"erase entity a/b"},
		"give one":                               {"limits set", "limits remove"},
		"use 192.0.2.0/24":                       {"limits set 192.0.2.7/24"},
		"use 2001:db8:1:2::/64":                  {"limits set 2001:db8:1:2:3::/80"},
		"--action block":                         {"limits set 192.0.2.1 --records 0"},
		"above 900":                              {"limits set 192.0.2.1 --imports 901"},
		"such as 30m, 12h or 90d":                {"limits set 192.0.2.1 --expires-in 0d", "keys create --scope import --expires-in soon"},
		"--data-dir, or --dynamodb and --table":  {"limits list --data-dir d --table t", "keys list --data-dir d --dynamodb http://127.0.0.1:9"},
		"a key needs a scope: import, export, d": {"keys create"},
		`there is no scope "admin"`:              {"keys create --scope admin"},
		"1 to 64 of the characters":              {"keys create --scope import --workspace a/b"},
		"use --data-dir":                         {"keys create --scope import"}, // no server has used the default data directory, so no server would find the key
		"give the id of one key":                 {"keys revoke"},
		"not the id of a key":                    {"keys revoke slc_aaaaaaaaaaaa_aaaa"},

		"is not a regular file": {"export event -o /tmp"},
		"sluice: ": {
			"export event -o - --json", "export event -o - --type t", "export entity -o - --to 2026-01-01T00:00:00Z", "export event -o - --from now",
			"limits now", "limits list all", "limits remove here", "limits set key:7m3k", "limits remove key:", "limits check 192.0.2.1 192.0.2.2", "limits check 192.0.2.1 key:7m3k", "limits check 192.0.2.0/24", "limits set 2001:db8::1", "limits set 192.0.2.1 --requests x",
			"limits set 192.0.2.1 --action allow", "limits set 192.0.2.1 --action block --records 1", "limits set 192.0.2.1 --note a\x01b", "keys now",
		},
	} {
		for _, args := range lines {
			wantUsageError(t, args, want)
		}
	}
	// An empty filter, for example from an unset shell variable, must not select everything.
	for _, args := range []string{
		"export event -o - --entity-id=", "export event -o - --from=", "export event -o - --to=", "export entity -o - --type=",
		"export entity -o - --csv-formulas=", "export entity -o e.csv --format=", "export entities -o - --since=",
		"keys list --workspace=", "keys create --scope import --workspace=", "keys create --scope import --expires-in=", "usage --once --of=",
	} {
		words := strings.Fields(args)
		flag, _, _ := strings.Cut(words[len(words)-1], "=")
		wantUsageError(t, args, flag+" is empty; give it a value or leave it out")
	}
	wantRun(t, sluiceCommand(t, "api.example.com", "usage", "--once"), exitUsage, "", `SLUICE_URL needs http:// or https://, not "api.example.com"`)
}

// wantUsageError runs the program in a directory with an empty file f.ndjson. The program
// must reject args with a message that contains want.
func wantUsageError(t *testing.T, args, want string) {
	t.Helper()
	cmd := inEnv(t, []string{"DATA_DIR=", "KEYS_TABLE="}, strings.Fields(args)...)
	overwrite(t, filepath.Join(cmd.Dir, "f.ndjson"), "")
	if _, stderr := wantRun(t, cmd, exitUsage, "", want); !strings.HasPrefix(stderr, "sluice: ") {
		t.Errorf("%s: %s", args, stderr)
	}
	wantFiles(t, cmd.Dir, "f.ndjson")
}

// Without a journal, the user can try again with another service or another key.
func TestARejectedKeyLeavesNoJournal(t *testing.T) {
	t.Parallel()
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + t.TempDir()}
	s := startIn(t, env)
	key := createKey(t, env, "--scope", "dashboard")
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
}

// The printed command works in any directory, because the path in its --data-dir is absolute.
func TestThePrintedCommandCreatesAKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's data")
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(work, dir)
	if err != nil {
		t.Fatal(err)
	}
	s := startIn(t, []string{"AUTH_MODE=api-key", "DATA_DIR=" + relative})
	arguments, err := s.ReadyText(t.Context(), `KEY=\$\(sluice (.*)\)`)
	if want := "  records in " + dir + "/sluice.db, "; err != nil || !strings.Contains(s.Log(), want) {
		t.Fatalf("%q does not contain %q, %v", s.Log(), want, err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", program+" "+arguments)
	cmd.Dir = t.TempDir()
	key, _ := wantRun(t, cmd, 0, "slc_", dir)
	secrettest.Keep(strings.TrimSpace(key))
	for _, scheme := range []string{"Bearer ", "bearer  "} {
		if r := s.client(t).check(t, "POST", "/create_entity", `{"id":"ada"}`, "Authorization", scheme+strings.TrimSpace(key)); r.status/100 != 2 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// Neither the server nor make reports an error.
func TestCtrlCEndsMakeRun(t *testing.T) {
	t.Parallel()
	requireProgram(t, "script", "install bsdutils, which contains script(1)")
	for _, command := range []string{program + " serve", "make -C " + child.ModuleRoot(t) + " run"} {
		// exec replaces the shell, which might otherwise exit with 130.
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
		if _, err := p.ReadyText(t.Context(), "(Ctrl-C stops the server)"); err != nil {
			t.Fatal(err)
		}
		if _, err := keyboard.Write([]byte{3}); err != nil { // ETX, the character that Ctrl-C sends
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || !strings.Contains(p.Log(), "Stopped.") {
			t.Errorf("%s: %v, %s", command, err, p.Log())
		}
	}
}

// The command reports the outage within two seconds. After three tries it also asks whether the
// server is running.
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
			lines := bufio.NewReader(stderr)
			text, err := lines.ReadBytes('\n')
			if took := time.Since(began); err != nil || took > 2*time.Second {
				t.Errorf("%v: reported after %s, %v", args, took, err)
			}
			if !regexp.MustCompile(`^No response from ` + tt.url + `: .*` + tt.reason + `\. Trying again\.\n`).Match(text) {
				t.Errorf("%v: %s", args, text)
			}
			for try := 1; !bytes.HasPrefix(text, []byte("Is the server running? ")); try++ {
				if text, err = lines.ReadBytes('\n'); err != nil || try > 3 {
					t.Fatalf("%v: after %d tries: %s, %v", args, try, text, err)
				}
			}
			cmd.Process.Kill()          //nolint:errcheck // the command may have ended
			io.Copy(io.Discard, stderr) //nolint:errcheck // waits until the command has ended
			cmd.Wait()                  //nolint:errcheck // the command was killed
		}
	}
}

// onTerminal runs a shell command in a terminal and returns what the terminal shows.
func onTerminal(t *testing.T, env []string, command string) (shown string, code int) {
	t.Helper()
	requireProgram(t, "script", "install bsdutils, which contains script(1)")
	cmd := exec.CommandContext(t.Context(), "script", "-qec", command, os.DevNull)
	cmd.Env = env
	stdin, err := cmd.StdinPipe() // kept open, because script(1) ends when its input ends
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() //nolint:errcheck // the command has ended
	shown, _, code = run(t, cmd)
	return shown, code
}

// Every line fits, even if the terminal's width changes. Missing responses are reported. The
// import makes no more calls per second than --rate allows.
func TestProgressFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	const records, rate = 150, 50
	var calls atomic.Int64
	half := filepath.Join(t.TempDir(), "half") // the shell resizes the terminal when this file appears, after half of the calls
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch n := calls.Add(1); {
		case n >= 5 && n <= 8:
			panic(http.ErrAbortHandler) // sends no response
		case n == records/2:
			overwrite(t, half, "")
		}
		next.ServeHTTP(w, r)
	})
	resize := "stty cols 60; { until [ -e " + half + " ]; do sleep 0.05; done; stty cols 120 </dev/tty; } & "
	file := write(t, "events.ndjson", eventLines(records))
	began := time.Now()
	shown, _ := onTerminal(t, sluiceCommand(t, proxy).Env, resize+program+" import events --one-by-one --workers 1 --rate "+fmt.Sprint(rate)+" "+file)
	if took := time.Since(began); took < (records-1)*time.Second/rate {
		t.Errorf("%d calls in %s, which is faster than --rate", calls.Load(), took)
	}
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
	if !strings.Contains(shown, "No response from "+proxy+": EOF.") {
		t.Errorf("%q", shown)
	}
}

// Every line fits, even if the terminal's width changes. After a signal, the command restores
// the terminal and ends.
func TestUsageFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"INT", "TERM"} {
		url, asked := usageServer(t)
		wide, ended := filepath.Join(t.TempDir(), "wide"), filepath.Join(t.TempDir(), "ended")
		go func() {
			for _, file := range []string{wide, ended} {
				for range 3 { // wait for three responses
					<-asked
				}
				overwrite(t, file, "")
			}
		}()
		// exec replaces the shell, so $$ is the process id of the command.
		resize := "stty rows 24 cols 60; await() { until [ -e $1 ]; do sleep 0.05; done; }; " +
			"{ await " + wide + "; stty cols 120 </dev/tty; await " + ended + "; kill -" + signal + " $$; } & exec "
		shown, code := onTerminal(t, sluiceCommand(t, url).Env, resize+program+" usage")
		if code != 0 || !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[Hkey 7m3kq2xw9abc") || !strings.HasSuffix(shown, "\x1b[J\x1b[?25h\x1b[?1049l") {
			t.Errorf("SIG%s: exit code %d, %q", signal, code, shown)
		}
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
}

// Without arguments, the program prints five lines, each with a command that exists.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	out, _ := wantRun(t, sluiceCommand(t, nowhere), 0, "sluice serve ", "")
	if strings.Count(out, "\n") != 5 {
		t.Errorf("%s", out)
	}
	for line := range strings.Lines(out) {
		command, _, _ := strings.Cut(line, "  ")
		wantRun(t, sluiceCommand(t, nowhere, append(strings.Fields(command)[1:], "--help")...), 0, "", "")
	}
}

func TestCompletionAndVersion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"keys create --scope ":           "dashboard erase export import operator",
		"limits set 192.0.2.1 --action ": "limit block unlimited observe",
		"export ":                        "entities events",
		"import ":                        "entities events",
		"sync ":                          "entities events",
		"export events --format ":        "ndjson csv",
		"import events f --format ":      "ndjson csv json",
		"export events --csv-formulas ":  "neutralize keep",
	} {
		out, stderr, code := run(t, sluiceCommand(t, nowhere, append([]string{"__complete"}, strings.Split(args, " ")...)...))
		values, _, _ := strings.Cut(out, "\n:")
		if got := strings.Join(strings.Fields(values), " "); code != 0 || got != want {
			t.Errorf("%q: %q, %s", args, got, stderr)
		}
	}
	wantRun(t, sluiceCommand(t, nowhere, "--version"), 0, "sluice version 0.1.0\n", "")
}
